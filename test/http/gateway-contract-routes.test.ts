import { connect } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  type Asking,
  answerOf,
  receiptFaults,
  servedGateway,
} from '../support/gateway/served.ts';
import { reservation, settlement } from '../support/ledger.ts';

type Served = Awaited<ReturnType<typeof servedGateway>>;
let served: Served;
const ask: Served['ask'] = (...args) => served.ask(...args);

beforeAll(async () => {
  served = await servedGateway('max_body_bytes = 20_000');
  const { ledger } = served.books;
  const [key] = await ledger.keys();
  if (!key) throw new Error('the gateway has no key');
  const payer = { accountId: key.accountId, keyId: key.id };
  await ledger.reserve(reservation(payer, 5n, { requestId: earlierRequest }));
  await ledger.settle(earlierRequest, settlement(5n));
});
afterAll(() => served.close());

/** A request that the usual key sent earlier. */
const earlierRequest = 'req_1';
const receiptPath = `/v1/receipts/${earlierRequest}`;
const messages = [{ role: 'user', content: 'Hello' }];
/** Bodies that are fine, by their routes. */
const posts: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { model: 'plain', messages },
  '/v1/messages': { model: 'claude', max_tokens: 100, messages },
  '/v1/responses': { model: 'plain', input: 'Hello' },
  '/v1/completions': { model: 'small', prompt: 'Hello' },
  '/v1/embeddings': { model: 'embedder', input: 'Hello' },
};
const completionRoutes = Object.keys(posts).filter((path) => path !== '/v1/embeddings');

/** Every route: its methods, whether it wants a key, and a request that is fine. */
const routes: readonly {
  path: string;
  allow: string;
  needsKey: boolean;
  asks: readonly { method: string; path?: string; body?: object }[];
}[] = [
  ...Object.entries(posts).map(([path, body]) => ({
    path,
    allow: 'POST',
    needsKey: true,
    asks: [{ method: 'POST', body }],
  })),
  { path: '/v1/catalog', allow: 'GET, HEAD', needsKey: false, asks: [{ method: 'GET' }] },
  { path: '/v1/models', allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  { path: '/v1/models/plain', allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  { path: '/v1/balance', allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  { path: '/v1/usage', allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  { path: receiptPath, allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  { path: '/v1/keys', allow: 'GET, HEAD', needsKey: true, asks: [{ method: 'GET' }] },
  {
    path: '/v1/keys/theirs',
    allow: 'PUT, DELETE',
    needsKey: true,
    asks: [{ method: 'PUT', body: { api_key: 'sk-own-abcdefghij' } }, { method: 'DELETE' }],
  },
  { path: '/openapi.json', allow: 'GET, HEAD', needsKey: false, asks: [{ method: 'GET' }] },
  { path: '/docs', allow: 'GET, HEAD', needsKey: false, asks: [{ method: 'GET' }] },
  { path: '/health', allow: 'GET, HEAD', needsKey: false, asks: [{ method: 'GET' }] },
  { path: '/ready', allow: 'GET, HEAD', needsKey: false, asks: [{ method: 'GET' }] },
];
const keyed = routes.filter(({ needsKey }) => needsKey);

/** The envelope of errors, as all of its readers find it. */
function expectError(answer: Answer, status: number, error: object): void {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
  expect(answer.json.error).toMatchObject({ message: expect.stringMatching(/\w/), ...error });
  expect(Object.keys(answer.json.error)).toEqual(
    expect.arrayContaining(['message', 'type', 'param', 'code']),
  );
}

describe('routes', () => {
  it.each(routes)('$path answers its methods', async ({ path, asks }) => {
    for (const asking of asks) expect((await ask(path, asking)).status).toBe(200);
  });

  it.each(routes)('$path refuses other methods and names its own', async ({ path, allow }) => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      if (allow.split(', ').includes(method)) continue;
      const answer = await ask(path, { method, ...(method === 'GET' ? {} : { body: {} }) });
      expectError(answer, 405, { type: 'invalid_request_error', code: 'method_not_allowed' });
      expect(answer.headers.get('allow')).toBe(allow);
    }
  });

  it('are all in the document, and no others', async () => {
    const { json } = await ask('/openapi.json', { key: null });
    const documented = Object.keys(json.paths).map((path) =>
      path.replace('{id}', 'plain').replace('{provider}', 'theirs').replace('{request_id}', earlierRequest),
    );
    const here = routes.map(({ path }) => path).filter((path) => path !== '/openapi.json');
    expect(documented.filter((path) => path !== '/openapi.json').sort()).toEqual(here.sort());
  });

  it('are described on a page that loads nothing', async () => {
    const { text, headers } = await ask('/docs', { key: null });
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    const { json } = await ask('/openapi.json', { key: null });
    for (const path of Object.keys(json.paths)) expect(text).toContain(path);
    expect(text).toContain('<a href="/openapi.json">');
    expect(text).not.toContain('undefined');
  });

  it.each(routes.filter(({ allow }) => allow.includes('HEAD')))('$path answers HEAD', async ({ path }) => {
    const answer = await ask(path, { method: 'HEAD' });
    expect([answer.status, answer.text]).toEqual([200, '']);
  });

  it.each([
    '/',
    '/v1',
    '/v1/',
    '/v2/models',
    '/v1/chat',
    '/v1/chat/completions/x',
    '/v1/balance/x',
    '/v1/keys/',
  ])('%s is not found', async (path) => {
    expectError(await ask(path), 404, { type: 'invalid_request_error', code: 'not_found' });
  });
});

describe('authentication', () => {
  it.each(['authorization', 'x-api-key', 'api-key'])('takes the key in %s', async (header) => {
    const { secret } = await served.customer();
    const value = header === 'authorization' ? `Bearer ${secret}` : secret;
    for (const { path, asks } of keyed)
      for (const asking of asks) {
        const { status } = await ask(path, { ...asking, key: null, headers: { [header]: value } });
        // The receipt belongs to another key.
        expect(status, path).toBe(path === receiptPath ? 404 : 200);
      }
  });

  it('answers every failure on every route with the same bytes', async () => {
    const revoked = await served.customer();
    await served.books.ledger.revokeKey(revoked.keyId);
    const expired = await served.customer({}, { expiresAt: '2026-01-01T00:00:00.000Z' });
    const disabled = await served.customer();
    await served.books.ledger.setKeyDisabled(disabled.keyId, true);
    const closed = await served.customer();
    await served.books.ledger.setAccountDisabled(closed.accountId, true);
    const unknown = `lathe_gateway_${'A'.repeat(43)}`;
    const failures: Record<string, Record<string, string>> = {
      missing: {},
      empty: { authorization: '' },
      'no bearer': { authorization: 'Basic dXNlcjpwYXNz' },
      malformed: { authorization: 'Bearer sk-something-else' },
      'malformed x-api-key': { 'x-api-key': 'nonsense' },
      unknown: { authorization: `Bearer ${unknown}` },
      'unknown x-api-key': { 'x-api-key': unknown },
      'unknown api-key': { 'api-key': unknown },
      revoked: { authorization: `Bearer ${revoked.secret}` },
      'revoked x-api-key': { 'x-api-key': revoked.secret },
      expired: { authorization: `Bearer ${expired.secret}` },
      disabled: { authorization: `Bearer ${disabled.secret}` },
      'disabled account': { 'x-api-key': closed.secret },
    };
    const seen = new Set<string>();
    for (const { path, asks } of keyed)
      for (const asking of asks)
        for (const [name, headers] of Object.entries(failures)) {
          const answer = await ask(path, { ...asking, key: null, headers });
          expect(answer.status, `${path} ${name}`).toBe(401);
          expect(answer.headers.get('www-authenticate')).toBe('Bearer');
          seen.add(sameness(answer));
        }
    expect([...seen]).toHaveLength(1);
    const { error } = JSON.parse([...seen][0]?.split('\n').at(-1) ?? '');
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_api_key', param: null });
  });

  it('gives the same answer for a key that was just revoked and is still cached', async () => {
    const { secret, keyId } = await served.customer();
    const asking = { key: secret, body: posts['/v1/messages'] ?? {} };
    expect((await ask('/v1/messages', asking)).status).toBe(200);
    await served.books.ledger.revokeKey(keyId);
    const before = served.provider.requests.length;
    const late = await ask('/v1/messages', asking);
    const never = await ask('/v1/messages', { ...asking, key: null });
    expect(late.status).toBe(401);
    expect(sameness(late)).toBe(sameness(never));
    expect(served.provider.requests.length).toBe(before);
  });

  it('is the same from the first request after the key was revoked, on every route', async () => {
    const headers = { 'idempotency-key': 'mine' };
    const body = posts['/v1/chat/completions'] ?? {};
    const requests: readonly (readonly [path: string, asking: Asking])[] = [
      ['/v1/models', {}],
      ['/v1/models/plain', {}],
      ['/v1/balance', {}],
      ['/v1/keys', {}],
      ['/v1/keys/theirs', { method: 'DELETE' }],
      ['/v1/keys/theirs', { method: 'PUT', body: { api_key: 'sk-own-abcdefghij' } }],
      // What was answered before, under its key.
      ['/v1/chat/completions', { headers, body }],
      ['/v1/chat/completions', { headers, body: { ...body, max_tokens: 7 } }],
      // What is refused before any money is held.
      ['/v1/chat/completions', { body: '{' }],
      ['/v1/chat/completions', { body: { ...body, model: 'nobody-knows' } }],
      ['/v1/chat/completions', { body, headers: { 'x-svc-max-cost-nanousd': '0' } }],
      ['/v1/embeddings', { body: { model: 'plain', input: 'x' } }],
    ];
    for (const [path, asking] of requests) {
      // Each is the first one after.
      const { secret: key, keyId } = await served.customer();
      expect((await ask('/v1/chat/completions', { key, headers, body })).status).toBe(200);
      await served.books.ledger.revokeKey(keyId);
      const late = await ask(path, { ...asking, key });
      const never = await ask(path, { ...asking, key: null });
      expect({ path, status: late.status }).toEqual({ path, status: 401 });
      expect(sameness(late)).toBe(sameness(never));
    }
  });

  it('is checked before the body', async () => {
    for (const body of ['{', '', 'x'.repeat(30_000)])
      expect((await ask('/v1/chat/completions', { key: null, body })).status).toBe(401);
    const headers = { 'content-type': 'text/plain' };
    expect((await ask('/v1/chat/completions', { key: null, headers, body: 'x' })).status).toBe(401);
  });
});

/** All of an answer but when it came and its request's id. */
function sameness({ headers, text }: Answer): string {
  const varying = new Set(['date', 'x-svc-request-id', 'request-id', 'x-request-id']);
  const kept = [...headers]
    .filter(([name]) => !varying.has(name))
    .map(([name, value]) => `${name}: ${value}`);
  return [...kept.sort(), text].join('\n');
}

describe('the catalog', () => {
  const entry = {
    object: 'model',
    caps: expect.any(Array),
    context_window: expect.any(Number),
    max_output_tokens: expect.any(Number),
    display_name: expect.any(String),
    provider: expect.any(String),
    pricing: {
      in_usd_per_mtok: expect.stringMatching(/^\d+(\.\d+)?$/),
      out_usd_per_mtok: expect.stringMatching(/^\d+(\.\d+)?$/),
      cache_read_usd_per_mtok: expect.stringMatching(/^\d+(\.\d+)?$/),
      cache_write_usd_per_mtok: expect.stringMatching(/^\d+(\.\d+)?$/),
    },
  };

  it('is public, and has ids, caps, windows and prices', async () => {
    const { json } = await ask('/v1/catalog', { key: null });
    expect((await ask('/v1/catalog', { key: 'nonsense' })).json).toEqual(json);
    expect(json.object).toBe('list');
    for (const model of json.data) expect(model).toMatchObject({ id: expect.any(String), ...entry });
    const plain = json.data.find(({ id }: { id: string }) => id === 'plain');
    expect(plain).toMatchObject({
      caps: ['chat'],
      context_window: 100_000,
      max_output_tokens: 8000,
      provider: 'oai',
    });
    expect(plain.pricing).toEqual({
      in_usd_per_mtok: '1',
      out_usd_per_mtok: '4',
      cache_read_usd_per_mtok: '0.1',
      cache_write_usd_per_mtok: '1.25',
    });
    const embedder = json.data.find(({ id }: { id: string }) => id === 'embedder');
    expect(embedder).toMatchObject({ caps: ['embeddings'], embedding_dimensions: 3 });
  });

  it('is the same for a key, scoped to it', async () => {
    const all = (await ask('/v1/catalog', { key: null })).json.data;
    const mine = (await ask('/v1/models')).json.data;
    // What needs a credential of the caller's own is in the catalog only.
    expect(mine).toEqual(all.filter(({ id }: { id: string }) => id !== 'theirs-only'));
    const { secret } = await served.customer({}, { models: ['plain', 'claude'] });
    const scoped = (await ask('/v1/models', { key: secret })).json;
    expect(scoped.object).toBe('list');
    expect(scoped.data.map(({ id }: { id: string }) => id)).toEqual(['plain', 'claude']);
    const refused = await ask('/v1/chat/completions', { key: secret, body: { model: 'full', messages } });
    expectError(refused, 404, { code: 'model_not_found', param: 'model' });
  });

  it('shows one model, whatever characters its id has', async () => {
    for (const id of ['plain', 'a/b:c']) {
      const { status, json, headers } = await ask(`/v1/models/${id}`);
      expect([status, json.id]).toEqual([200, id]);
      expect(headers.get('x-svc-requested-model')).toBe(id);
      expect(json).toMatchObject(entry);
    }
    expect((await ask(`/v1/models/${encodeURIComponent('a/b:c')}`)).json.id).toBe('a/b:c');
    const alias = await ask('/v1/models/auto');
    expect([alias.json.id, alias.headers.get('x-svc-effective-model')]).toEqual(['plain', 'plain']);
    expectError(await ask('/v1/models/nothing'), 404, { code: 'model_not_found', param: 'model' });
  });
});

describe('the balance', () => {
  it('consists of integers for the allowance and the credits', async () => {
    const { secret } = await served.customer({ credit: 7_000_000_000n, included: 500_000_000n });
    expect((await ask('/v1/balance', { key: secret })).json).toEqual({
      remaining_nanodollars: 7_500_000_000,
      included_nanodollars: 500_000_000,
      allowance_remaining_nanodollars: 500_000_000,
      credits_remaining_nanodollars: 7_000_000_000,
    });
    served.replies({ say: { text: 'x', usage: { input: 1000, output: 500 } } });
    const paid = await ask('/v1/chat/completions', {
      key: secret,
      body: { model: 'plain', messages, max_tokens: 1000 },
    });
    expect(paid.headers.get('x-svc-cost-nanousd')).toBe('3000000');
    expect((await ask('/v1/balance', { key: secret })).json).toEqual({
      remaining_nanodollars: 7_497_000_000,
      included_nanodollars: 500_000_000,
      // The allowance is spent first.
      allowance_remaining_nanodollars: 497_000_000,
      credits_remaining_nanodollars: 7_000_000_000,
    });
  });
});

describe('invalid bodies', () => {
  const bad: [string, number, string, object | string, Record<string, string>][] = [
    ['no JSON', 400, 'invalid_json', '{"model": ', {}],
    ['nothing', 400, 'invalid_json', '', {}],
    ['no object', 400, 'invalid_type', '[1]', {}],
    ['null', 400, 'invalid_type', 'null', {}],
    ['of another type', 415, 'unsupported_media_type', '{}', { 'content-type': 'text/plain' }],
    ['compressed', 415, 'unsupported_media_type', '{}', { 'content-encoding': 'gzip' }],
    ['too large', 413, 'body_too_large', `{"model":"plain","x":"${'x'.repeat(20_000)}"}`, {}],
  ];
  it.each(bad)('%s: %i %s', async (_, status, code, body, headers) => {
    for (const path of [...Object.keys(posts), '/v1/keys/theirs']) {
      if (status === 413 && path === '/v1/keys/theirs') continue;
      const method = path.startsWith('/v1/keys') ? 'PUT' : 'POST';
      const answer = await ask(path, { method, body, headers });
      expectError(answer, status, { type: 'invalid_request_error', code });
      if (path === '/v1/messages') {
        expect(answer.json.type).toBe('error');
        expect(answer.json.request_id).toBe(answer.headers.get('request-id'));
      }
    }
  });

  it('too large without a content-length: 413', async () => {
    const response = await fetch(`${served.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': (await served.customer()).secret },
      body: new Blob([`{"x":"${'x'.repeat(20_000)}"}`]).stream(),
      duplex: 'half',
    } as RequestInit);
    const answer = await answerOf(response);
    expectError(answer, 413, { code: 'body_too_large' });
    expect(receiptFaults(answer)).toEqual([]);
  });

  it.each(completionRoutes)('%s without a model, and with one of no sense, is 400', async (path) => {
    const { model: _, ...rest } = posts[path] as { model: string };
    for (const body of [rest, { ...rest, model: 7 }, { ...rest, model: '' }])
      expectError(await ask(path, { body }), 400, { type: 'invalid_request_error' });
  });

  it('malformed HTTP gets the error envelope and a receipt too', async () => {
    const { hostname, port } = new URL(served.url);
    const raw = async (bytes: string) => {
      const socket = connect(Number(port), hostname);
      socket.write(bytes);
      const [head = '', body = ''] = (await textOf(socket)).split('\r\n\r\n');
      const [status = '', ...lines] = head.split('\r\n');
      const headers = new Headers(lines.map((line) => line.split(/: ?/, 2) as [string, string]));
      return {
        status: Number(status.split(' ')[1]),
        headers,
        json: JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1)),
        isStream: false,
      };
    };
    for (const [bytes, status] of [
      ['NONSENSE\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`, 431],
      ['GET /health HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n', 400],
      ['OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n', 400],
      ['GET /health HTTP/1.1\r\nhost: x\r\nexpect: wonders\r\nconnection: close\r\n\r\n', 417],
      ['GET /v1/balance HTTP/1.1\r\nconnection: close\r\n\r\n', 401],
      ['GET /v1/balance HTTP/1.0\r\n\r\n', 401],
    ] as const) {
      const answer = await raw(bytes);
      expect(answer.status).toBe(status);
      expect(receiptFaults(answer)).toEqual([]);
      expect(answer.json.error).toMatchObject({ type: 'invalid_request_error', message: expect.any(String) });
    }
  });
});
