import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ByokProvider } from '../../src/gateway/config/types.ts';
import { type Answer, type Asking, houseKey, ownKey, servedGateway } from '../support/gateway/served.ts';

type Served = Awaited<ReturnType<typeof servedGateway>>;
let served: Served;
/** The key of an account without stored credentials and without money. */
let key: string;
let accountId: string;

beforeAll(async () => {
  served = await servedGateway();
});
afterAll(() => served.close());
beforeEach(async () => {
  served.replies({ say: { text: 'Hello.' } });
  ({ secret: key, accountId } = await served.customer({}));
});

const ask = (path: string, asking: Asking = {}) => served.ask(path, { key, ...asking });
const put = (provider: string, body: object | string) => ask(`/v1/keys/${provider}`, { method: 'PUT', body });
const list = async () => (await ask('/v1/keys')).json.data as Record<string, unknown>[];
const chat = (model: string, more: object = {}, headers: Record<string, string> = {}) =>
  ask('/v1/chat/completions', {
    body: { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50, ...more },
    headers,
  });
const ids = async () => (await ask('/v1/models')).json.data.map(({ id }: { id: string }) => id) as string[];
const errorOf = ({ status, json }: Answer) => ({ status, ...json.error }) as Record<string, unknown>;
const endpoint = ({ headers }: Answer) => headers.get('x-svc-endpoint');

const azure: ByokProvider = {
  id: 'azure',
  wire: 'openai-chat',
  baseUrl: undefined,
  hostSuffixes: ['.resources.invalid'],
  basePath: '/openai/v1',
};
/** Stores the credential as if the check at the provider had passed; this provider does not exist. */
const storeResource = () =>
  served
    .credentials([azure])
    .put(accountId, 'azure', { api_key: ownKey, base_url: 'https://mine.resources.invalid' });

describe('a stored credential', () => {
  it('is verified, listed without its secret, and can be removed', async () => {
    expect(await list()).toEqual([]);
    const before = served.provider.lookups.length;
    const stored = await put('theirs', { api_key: ownKey });
    expect(stored.status).toBe(200);
    const lookups = served.provider.lookups.slice(before);
    expect(lookups.map((one) => [one.method, one.path, one.key])).toEqual([['GET', '/v1/models', ownKey]]);

    const listed = await ask('/v1/keys');
    expect(listed.json).toEqual({
      data: [
        {
          provider: 'theirs',
          status: 'active',
          last4: ownKey.slice(-4),
          created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        },
      ],
    });
    for (const { text } of [stored, listed]) expect(text).not.toContain(ownKey.slice(0, 8));
    // Another account has none of it.
    const other = (await served.customer({})).secret;
    expect((await ask('/v1/keys', { key: other })).json).toEqual({ data: [] });

    expect((await ask('/v1/keys/theirs', { method: 'DELETE' })).status).toBe(200);
    expect(await list()).toEqual([]);
    expect(errorOf(await ask('/v1/keys/theirs', { method: 'DELETE' }))).toMatchObject({
      status: 404,
      type: 'invalid_request_error',
    });
  });

  it('that the provider rejects is 422, and nothing is stored', async () => {
    const answer = await put('theirs', { api_key: 'sk-wrong-0123456789' });
    expect(errorOf(answer)).toMatchObject({
      status: 422,
      type: 'upstream_error',
      message: expect.stringMatching(/reject/),
    });
    expect(answer.text).not.toMatch(/wrong|6789/);
    expect(await list()).toEqual([]);
    // What was stored before stays.
    await put('theirs', { api_key: ownKey });
    expect((await put('theirs', { api_key: 'sk-wrong-0123456789' })).status).toBe(422);
    expect(await list()).toMatchObject([{ provider: 'theirs', status: 'active', last4: ownKey.slice(-4) }]);
  });

  it.each([
    ['without a key', 'theirs', {}, 'api_key'],
    ['with a key of no sense', 'theirs', { api_key: 7 }, 'api_key'],
    ['with an empty key', 'theirs', { api_key: '' }, 'api_key'],
    ['with a line break in the key', 'theirs', { api_key: 'sk-1\nx: y' }, 'api_key'],
    [
      "with a URL that is not the caller's to choose",
      'theirs',
      { api_key: ownKey, base_url: 'https://x.test' },
      'base_url',
    ],
    ['of a resource without its URL', 'azure', { api_key: ownKey }, 'base_url'],
    [
      'of a resource on plain http',
      'azure',
      { api_key: ownKey, base_url: 'http://mine.resources.invalid' },
      'base_url',
    ],
    [
      'of a resource elsewhere',
      'azure',
      { api_key: ownKey, base_url: 'https://resources.invalid.evil.test' },
      'base_url',
    ],
    ['of a resource at an address', 'azure', { api_key: ownKey, base_url: 'https://127.0.0.1' }, 'base_url'],
    [
      'of a resource at a port',
      'azure',
      { api_key: ownKey, base_url: 'https://mine.resources.invalid:8443' },
      'base_url',
    ],
    [
      'of a resource with a password',
      'azure',
      { api_key: ownKey, base_url: 'https://a:b@mine.resources.invalid' },
      'base_url',
    ],
  ])('%s is 400', async (_, provider, body, param) => {
    const answer = await put(provider, body);
    expect(errorOf(answer)).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      param,
      violations: [{ path: param, message: expect.any(String) }],
    });
    expect(await list()).toEqual([]);
  });

  it('with several faults gets all of them', async () => {
    const { violations } = errorOf(await put('azure', { api_key: '', base_url: 'ftp://x' }));
    expect((violations as { path: string }[]).map(({ path }) => path)).toEqual(['api_key', 'base_url']);
  });

  it('of a provider that accepts none is 404', async () => {
    for (const provider of ['ant', 'nobody', 'vllm:lab'])
      expect(errorOf(await put(provider, { api_key: ownKey }))).toMatchObject({
        status: 404,
        param: 'provider',
      });
    expect((await ask('/v1/keys/nobody', { method: 'DELETE' })).status).toBe(404);
  });
});

describe("the caller's own credential", () => {
  it('adds models to the catalog, and serves them free of charge', async () => {
    expect(await ids()).not.toContain('theirs-only');
    expect(errorOf(await chat('theirs-only'))).toMatchObject({
      status: 404,
      code: 'model_not_found',
      param: 'model',
    });
    await put('theirs', { api_key: ownKey });
    expect(await ids()).toContain('theirs-only');
    for (const stream of [false, true]) {
      const answer = await chat('theirs-only', { stream }, { 'x-svc-max-cost-nanousd': '0' });
      expect([answer.status, endpoint(answer)]).toEqual([200, 'byok:theirs']);
      expect(answer.headers.get('x-svc-cost-nanousd')).toBe(stream ? null : '0');
      expect(served.lastProviderRequest().key).toBe(ownKey);
    }
    expect((await ask('/v1/balance')).json.remaining_nanodollars).toBe(0);
    const { data } = (await ask('/v1/usage?by=provider,model')).json;
    expect(data).toMatchObject([
      { provider: 'theirs', model: 'theirs-only', requests: 2, spend_nanodollars: 0 },
    ]);
    expect(data[0].prompt_tokens).toBeGreaterThan(0);
  });

  it("is used in place of the operator's, which is not tried after it", async () => {
    const rich = await served.customer();
    key = rich.secret;
    const house = await chat('plain');
    expect([endpoint(house), served.lastProviderRequest().key]).toEqual(['credits', houseKey]);
    expect((await put('oai', { api_key: ownKey })).status).toBe(200);
    const own = await chat('plain');
    expect([own.status, endpoint(own), own.headers.get('x-svc-cost-nanousd')]).toEqual([
      200,
      'byok:oai',
      '0',
    ]);
    expect(served.lastProviderRequest().key).toBe(ownKey);

    served.replies({ status: 401 });
    const before = served.provider.requests.length;
    const rejected = await chat('plain');
    expect(errorOf(rejected)).toMatchObject({
      status: 422,
      type: 'upstream_error',
      code: 'provider_credential_rejected',
      message: expect.stringContaining('PUT /v1/keys/oai'),
    });
    expect(endpoint(rejected)).toBe('byok:oai');
    expect(served.provider.requests.slice(before).map((one) => one.key)).toEqual([ownKey]);
    expect(await list()).toMatchObject([{ provider: 'oai', status: 'rejected' }]);

    served.replies({ say: { text: 'Hello.' } });
    await ask('/v1/keys/oai', { method: 'DELETE' });
    expect(endpoint(await chat('plain'))).toBe('credits');
  });

  it('frees an idempotency key when it is rejected, so that a new credential can be tried', async () => {
    await put('theirs', { api_key: ownKey });
    const headers = { 'idempotency-key': crypto.randomUUID() };
    served.replies({ status: 401 });
    expect((await chat('theirs-only', {}, headers)).status).toBe(422);
    served.replies({ say: { text: 'Hello.' } });
    await put('theirs', { api_key: ownKey });
    expect((await chat('theirs-only', {}, headers)).status).toBe(200);
  });
});

describe('the cloud resource provider', () => {
  it('that cannot be reached stores nothing', async () => {
    const answer = await put('azure', { api_key: ownKey, base_url: 'https://mine.resources.invalid' });
    expect(errorOf(answer)).toMatchObject({ status: 422, type: 'upstream_error' });
    expect(await list()).toEqual([]);
  });

  it('is listed with its URL', async () => {
    await storeResource();
    expect(await list()).toMatchObject([
      {
        provider: 'azure',
        status: 'active',
        last4: ownKey.slice(-4),
        base_url: 'https://mine.resources.invalid',
      },
    ]);
  });

  it('has deployments by name, which no list shows', async () => {
    await storeResource();
    for (const model of ['my-deployment', 'azure/my-deployment', 'azure/plain']) {
      const answer = await chat(model);
      // Nothing answers there; that it was asked at all is what is to be seen.
      expect(errorOf(answer)).toMatchObject({ status: 502, type: 'upstream_error' });
      expect(endpoint(answer)).toBe('byok:azure');
      expect(answer.headers.get('x-svc-requested-model')).toBe(model);
      expect(answer.headers.get('x-svc-effective-model')).toBe(model);
    }
    expect((await ids()).filter((id) => id.includes('deployment') || id.startsWith('azure'))).toEqual([]);
  });

  it('has none without a resource', async () => {
    for (const model of ['my-deployment', 'azure/my-deployment'])
      expect(errorOf(await chat(model))).toMatchObject({
        status: 404,
        code: 'model_not_found',
        param: 'model',
      });
  });

  it('does not serve a deployment that is named like a model of the catalog', async () => {
    ({ secret: key, accountId } = await served.customer());
    await storeResource();
    const answer = await chat('plain');
    expect([answer.status, endpoint(answer)]).toEqual([200, 'credits']);
    expect(served.lastProviderRequest()).toMatchObject({ model: 'up-plain', key: houseKey });
  });
});

describe('a registered endpoint', () => {
  const register = (baseUrl: string) =>
    served.credentials([]).register(accountId, 'vllm:lab', { apiKey: ownKey, baseUrl });

  it('serves its models to its account, free of charge', async () => {
    await register(`${served.provider.url}/v1`);
    for (const stream of [false, true]) {
      const answer = await chat('vllm:lab/some/model', { stream });
      expect([answer.status, endpoint(answer)]).toEqual([200, 'byok:vllm:lab']);
      expect(served.lastProviderRequest()).toMatchObject({ model: 'some/model', key: ownKey });
      // The name that all such servers know: some would ignore the other, and never end.
      expect(served.lastProviderRequest().body).toMatchObject({ max_tokens: 50 });
    }
    await chat('vllm:lab/some/model', { reasoning_effort: 'minimal' });
    expect(served.lastProviderRequest().body.reasoning_effort).toBe('minimal');
    expect((await ids()).filter((id) => id.includes(':lab'))).toEqual([]);
    expect(await list()).toMatchObject([{ provider: 'vllm:lab', base_url: `${served.provider.url}/v1` }]);
    key = (await served.customer()).secret;
    expect((await chat('vllm:lab/some/model')).status).toBe(404);
  });

  it('may use plain http at loopback and private addresses only', async () => {
    for (const url of ['http://8.8.8.8/v1', 'http://[2001:4860:4860::8888]/v1'])
      await expect(register(url)).rejects.toMatchObject({ status: 400, param: 'base_url' });
    for (const url of [
      'http://10.1.2.3/v1',
      'http://192.168.0.9:8000/v1',
      'http://[::1]:8000/v1',
      'https://8.8.8.8/v1',
    ])
      await register(url);
  });
});
