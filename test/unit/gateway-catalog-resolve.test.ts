/** Name resolution: a name resolves to the requested model or to none, never silently to another one. */
import { describe, expect, test } from 'vitest';
import type { ByokCredential } from '../../src/gateway/access/types.ts';
import { toBalanceBody, toListBody, toModelBody } from '../../src/gateway/catalog/bodies.ts';
import { Catalog } from '../../src/gateway/catalog/catalog.ts';
import { GatewayFile } from '../../src/gateway/config/gateway-file.ts';
import { WireError } from '../../src/wires/core/error.ts';

const model = (id: string, provider: string, more = '') => `[[models]]
id = "${id}"
provider = "${provider}"
family = "openai"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "1"
out_usd_per_mtok = "2"
${more}
`;
const source = `
[[providers]]
id = "openai"
wire = "openai-chat"
base_url = "https://api.openai.test/v1/"
api_key_env = "KEY"
[[providers]]
id = "closed"
wire = "google"
base_url = "https://closed.test/v1"
access = "byok"
[[providers]]
id = "pool"
wire = "lathe"
base_url = ["http://10.0.0.1/v1", "http://10.0.0.2/v1"]
${model('gpt-5', 'openai', 'upstream = "gpt-5-2026"')}
${model('gpt-5-mini', 'openai')}
${model('vendor/open-8b', 'pool')}
${model('gem', 'closed')}
[aliases]
auto = "gpt-5-mini"
[[fallbacks]]
model = "gpt-5"
to = ["vendor/open-8b", "gem", "gpt-5-mini"]
[byok.closed]
[byok.openai]
[byok.azure]
[secrets]
master_key_env = "MASTER"
`;
const env = { KEY: 'sk-house', MASTER: Buffer.alloc(32, 7).toString('base64') };
const config = await new GatewayFile(source, { name: 'gateway.toml', folder: '/', env }).config();
const catalog = new Catalog(config);

const credentials =
  (...some: ByokCredential[]) =>
  (provider: string) =>
    Promise.resolve(some.find((one) => one.provider === provider));
const none = { models: undefined, findCredential: credentials(), fallbacks: [] };
const own = (provider: string, baseUrl?: string): ByokCredential => ({
  provider,
  apiKey: `sk-own-${provider}`,
  baseUrl,
});

const refused = async (work: Promise<unknown>): Promise<WireError> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof WireError) return error;
  throw new Error('was not refused', { cause: error });
};
const idsOf = (candidates: readonly { model: { id: string } }[]) => candidates.map((one) => one.model.id);

describe('names', () => {
  test("an exact id is that model, with the operator's credential", async () => {
    const found = await catalog.resolve('gpt-5-mini', none);
    expect(found).toMatchObject({ requested: 'gpt-5-mini', reason: 'as_requested' });
    expect(found.candidates).toEqual([
      { model: found.model, credential: { kind: 'house', apiKey: 'sk-house' } },
    ]);
    expect(found.model.upstream).toBe('gpt-5-mini');
    expect((await catalog.resolve('gpt-5', none)).model.upstream).toBe('gpt-5-2026');
  });

  test('an alias has the reason `routed`; a namespaced name is `as_requested` with another effective id', async () => {
    const routed = await catalog.resolve('auto', none);
    expect([routed.model.id, routed.reason]).toEqual(['gpt-5-mini', 'routed']);
    const spaced = await catalog.resolve('openai/gpt-5', none);
    expect([spaced.model.id, spaced.reason]).toEqual(['gpt-5', 'as_requested']);
    expect((await catalog.resolve('pool/vendor/open-8b', none)).model.id).toBe('vendor/open-8b');
    expect((await catalog.resolve('vendor/open-8b', none)).reason).toBe('as_requested');
  });

  test('a key that is limited to an alias can use it, and only it', async () => {
    const scope = { ...none, models: ['auto'] };
    const found = await catalog.resolve('auto', scope);
    expect([found.model.id, found.reason]).toEqual(['gpt-5-mini', 'routed']);
    for (const name of ['gpt-5-mini', 'openai/gpt-5-mini', 'gpt-5'])
      expect(await refused(catalog.resolve(name, scope)), name).toMatchObject({
        status: 404,
        message: expect.stringContaining(`may not use the model '${name}'`),
      });
    expect((await catalog.listFor(['auto'], none.findCredential)).map(({ id }) => id)).toEqual(['auto']);
    // A key that is limited to the model may use its aliases, too, and sees it once.
    expect((await catalog.resolve('auto', { ...none, models: ['gpt-5-mini'] })).model.id).toBe('gpt-5-mini');
    expect((await catalog.listFor(['gpt-5-mini', 'auto'], none.findCredential)).map(({ id }) => id)).toEqual([
      'gpt-5-mini',
    ]);
  });

  test.each([
    ['gpt-5-mni', /'gpt-5-mni'.*Did you mean 'gpt-5-mini'\?.*GET \/v1\/models/],
    ['closed/gpt-5', /no model/],
    ['pool/gpt-5', /no model/],
    ['GPT-5', /Did you mean 'gpt-5'/],
    ['', /no model/],
    ['vllm:lab/x', /no model/],
    ['azure/mine', /no model/],
    ['__proto__', /no model/],
    ['constructor', /no model/],
    ['gem', /needs a key of your own for the provider closed: store one with PUT \/v1\/keys\/closed/],
  ])('%j is 404', async (name, message) => {
    const error = await refused(catalog.resolve(name, none));
    expect(error).toMatchObject({
      status: 404,
      type: 'invalid_request_error',
      code: 'model_not_found',
      param: 'model',
    });
    expect(error.message).toMatch(message);
  });

  test('a very long name is not repeated in full', async () => {
    const error = await refused(catalog.resolve('x'.repeat(100_000), none));
    expect(error.message.length).toBeLessThan(400);
  });

  test('a key sees and uses its own models only', async () => {
    const asker = { ...none, models: ['gpt-5-mini'] };
    expect(idsOf((await catalog.resolve('auto', asker)).candidates)).toEqual(['gpt-5-mini']);
    const error = await refused(catalog.resolve('gpt-5', asker));
    expect([error.status, error.message]).toEqual([404, "This API key may not use the model 'gpt-5'."]);
    expect((await catalog.listFor(asker.models, asker.findCredential)).map(({ id }) => id)).toEqual([
      'gpt-5-mini',
    ]);
    const hint = await refused(catalog.resolve('gpt-55', { ...none, models: ['vendor/open-8b'] }));
    expect(hint.message).not.toMatch(/Did you mean 'gpt-5'/);
  });
});

describe("callers' own credentials", () => {
  test("are used in place of the operator's, which is not tried after them", async () => {
    const { candidates } = await catalog.resolve('gpt-5-mini', {
      ...none,
      findCredential: credentials(own('openai')),
    });
    expect(candidates.map(({ credential }) => credential)).toEqual([
      { kind: 'byok', provider: 'openai', apiKey: 'sk-own-openai' },
    ]);
  });

  test('add the models of a provider for which the operator has no key', async () => {
    const asker = { ...none, findCredential: credentials(own('closed')) };
    expect((await catalog.resolve('gem', asker)).candidates[0]?.credential).toMatchObject({ kind: 'byok' });
    const ids = (await catalog.listFor(undefined, asker.findCredential)).map(({ id }) => id);
    expect(ids).toEqual(['gpt-5', 'gpt-5-mini', 'vendor/open-8b', 'gem']);
    expect((await catalog.listFor(undefined, none.findCredential)).map(({ id }) => id)).not.toContain('gem');
    expect(catalog.list().map(({ id }) => id)).toContain('gem');
  });

  test('are not used for a provider that has no [byok] table', async () => {
    const asker = { ...none, findCredential: credentials(own('pool')) };
    const { candidates } = await catalog.resolve('vendor/open-8b', asker);
    expect(candidates[0]?.credential).toEqual({ kind: 'house', apiKey: undefined });
  });

  test('of a cloud resource add deployments, by both names, but do not replace a catalog model', async () => {
    const asker = { ...none, findCredential: credentials(own('azure', 'https://mine.openai.azure.com')) };
    for (const name of ['my-gpt', 'azure/my-gpt']) {
      const { model: found, candidates, reason } = await catalog.resolve(name, asker);
      expect(found).toMatchObject({
        id: name,
        upstream: 'my-gpt',
        provider: { id: 'azure', wire: 'openai-chat' },
      });
      expect(reason).toBe('as_requested');
      expect(candidates).toEqual([
        {
          model: found,
          credential: {
            kind: 'byok',
            provider: 'azure',
            apiKey: 'sk-own-azure',
            baseUrl: 'https://mine.openai.azure.com',
          },
        },
      ]);
      expect(found.price).toMatchObject({ input: 0n, output: 0n });
      // Its levels are unknown, so the caller's is passed on.
      expect(found.efforts).toContain('xhigh');
    }
    expect((await catalog.resolve('gpt-5', asker)).model.provider.id).toBe('openai');
    expect((await catalog.listFor(undefined, asker.findCredential)).map(({ id }) => id)).not.toContain(
      'my-gpt',
    );
    for (const name of ['a/b', 'azure/a/b', 'azure/', '../x', 'a b', 'x'.repeat(65)])
      expect((await refused(catalog.resolve(name, asker))).status).toBe(404);
  });

  test('of an endpoint add its models, free of charge', async () => {
    const asker = { ...none, findCredential: credentials(own('vllm:lab', 'http://10.0.0.9:8000/v1')) };
    const { model: found, candidates } = await catalog.resolve('vllm:lab/org/model-7b', asker);
    expect(found).toMatchObject({ id: 'vllm:lab/org/model-7b', upstream: 'org/model-7b' });
    expect(candidates[0]?.credential).toMatchObject({
      provider: 'vllm:lab',
      baseUrl: 'http://10.0.0.9:8000/v1',
    });
    expect((await refused(catalog.resolve('vllm:other/x', asker))).status).toBe(404);
    const scoped = { ...asker, models: ['gpt-5'] };
    expect((await refused(catalog.resolve('vllm:lab/org/model-7b', scoped))).status).toBe(404);
  });
});

describe('a model with deployments', () => {
  const deployments = (...providers: readonly string[]) =>
    providers.map((id) => `[[models.deployments]]\nprovider = "${id}"\n`).join('');
  const deployed = async () => {
    const extended = source
      .replace(
        '[aliases]',
        `${model('many', 'openai').replace('provider = "openai"\n', '')}${deployments('openai', 'pool', 'closed')}
${model('theirs', 'closed').replace('provider = "closed"\n', '')}${deployments('closed')}
[aliases]`,
      )
      .replace('to = ["vendor/open-8b", ', 'to = ["many", ');
    return new Catalog(await new GatewayFile(extended, { name: 'gateway.toml', folder: '/', env }).config());
  };
  const providersOf = (candidates: readonly { model: { provider: { id: string } } }[]) =>
    candidates.map((one) => one.model.provider.id);

  test('has a candidate for each one that the operator has a credential for, in the order of the file', async () => {
    const { candidates, model: found, reason } = await (await deployed()).resolve('many', none);
    expect(providersOf(candidates)).toEqual(['openai', 'pool']);
    expect(candidates.map(({ route }) => route?.deployment.id)).toEqual(['openai/many', 'pool/many']);
    expect([found.id, reason]).toEqual(['many', 'as_requested']);
    expect(candidates.every(({ model: one }) => one.id === 'many' && one.routing === undefined)).toBe(true);
  });

  test('has as a fallback all of its deployments', async () => {
    const { candidates } = await (await deployed()).resolve('gpt-5', none);
    expect(idsOf(candidates)).toEqual(['gpt-5', 'many', 'many', 'gpt-5-mini']);
  });

  test('has those of one provider as provider/id', async () => {
    const { candidates } = await (await deployed()).resolve('pool/many', none);
    expect(providersOf(candidates)).toEqual(['pool']);
    const error = await refused((await deployed()).resolve('closed/many', none));
    expect(error.message).toMatch(/needs a key of your own for the provider closed/);
  });

  test("has only those of the caller's own credentials, where there are some", async () => {
    const asker = { ...none, findCredential: credentials(own('closed')) };
    const { candidates } = await (await deployed()).resolve('many', asker);
    expect(candidates.map(({ credential }) => credential)).toEqual([
      { kind: 'byok', provider: 'closed', apiKey: 'sk-own-closed' },
    ]);
    const listed = async (findCredential: typeof asker.findCredential) =>
      (await (await deployed()).listFor(undefined, findCredential)).map(({ id }) => id);
    expect(await listed(none.findCredential)).toContain('many');
    expect(await listed(none.findCredential)).not.toContain('theirs');
    expect(await listed(asker.findCredential)).toContain('theirs');
  });
});

describe('fallbacks', () => {
  test("are in the caller's order, then the configuration's; unusable ones are left out", async () => {
    const plain = await catalog.resolve('gpt-5', none);
    expect(idsOf(plain.candidates)).toEqual(['gpt-5', 'vendor/open-8b', 'gpt-5-mini']);
    const named = await catalog.resolve('gpt-5', { ...none, fallbacks: ['auto', 'gpt-5', 'gpt-5-mini'] });
    expect(idsOf(named.candidates)).toEqual(['gpt-5', 'gpt-5-mini', 'vendor/open-8b']);
    const scoped = await catalog.resolve('gpt-5', { ...none, models: ['gpt-5', 'gpt-5-mini'] });
    expect(idsOf(scoped.candidates)).toEqual(['gpt-5', 'gpt-5-mini']);
    expect(idsOf((await catalog.resolve('gpt-5-mini', none)).candidates)).toEqual(['gpt-5-mini']);
  });

  test('that the caller names are 400 when they are unknown or more than three', async () => {
    const unknown = await refused(
      catalog.resolve('gpt-5', { ...none, fallbacks: ['gpt-5-mni', 'auto', 'nothing'] }),
    );
    expect(unknown).toMatchObject({ status: 400, param: 'x-svc-fallback-models', code: 'model_not_found' });
    expect(unknown.message).toMatch(/'gpt-5-mni'.*'gpt-5-mini'.*'nothing'/);
    const many = await refused(
      catalog.resolve('gpt-5', { ...none, fallbacks: ['auto', 'auto', 'auto', 'auto'] }),
    );
    expect(many.message).toMatch(/names 4 models; name at most 3/);
    expect((await refused(catalog.resolve('gpt-5', { ...none, fallbacks: ['gem'] }))).status).toBe(400);
  });
});

describe('response bodies', () => {
  test("a model has the catalog's members and those that OpenAI's clients read, without secrets", () => {
    const [first] = catalog.list();
    if (!first) throw new Error('no models');
    expect(toModelBody(first)).toEqual({
      id: 'gpt-5',
      object: 'model',
      created: 0,
      owned_by: 'openai',
      display_name: 'gpt-5',
      provider: 'openai',
      caps: ['chat'],
      context_window: 1000,
      max_output_tokens: 100,
      pricing: {
        in_usd_per_mtok: '1',
        out_usd_per_mtok: '2',
        cache_read_usd_per_mtok: '1',
        cache_write_usd_per_mtok: '1',
      },
    });
    const text = JSON.stringify(toListBody(catalog.list()));
    expect(text).not.toContain('sk-house');
    expect(JSON.parse(text)).toMatchObject({ object: 'list' });
  });

  test('a balance is in integer nanodollars', () => {
    const balance = { remaining: 5n, included: 3n, allowanceRemaining: 2n, creditsRemaining: -1n };
    expect(toBalanceBody(balance)).toEqual({
      remaining_nanodollars: 5,
      included_nanodollars: 3,
      allowance_remaining_nanodollars: 2,
      credits_remaining_nanodollars: -1,
    });
    expect(toBalanceBody({ ...balance, remaining: 10n ** 18n }).remaining_nanodollars).toBe(
      Number.MAX_SAFE_INTEGER,
    );
  });
});
