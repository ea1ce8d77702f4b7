/** Headers of completion requests: whose a request is, its priority and its deadline. */
import { describe, expect, test } from 'vitest';
import { openHostGateway, readHostGateway } from '../../src/cli/gateway.ts';
import { listen } from '../../src/gateway/serve/listen.ts';
import { readAdmission } from '../../src/http/admission.ts';
import { Resident } from '../../src/planes/resident.ts';
import { noopTracer } from '../../src/tracing/index.ts';
import { freshSqlite } from '../support/databases.ts';
import { customerOf } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const messages = [{ role: 'user', content: 'hi' }];
/** A body of each completion route. */
const completions: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 5 }],
  ['/api/chat', { model: 'scripted', messages, stream: false }],
  ['/api/generate', { model: 'scripted', prompt: 'hi', stream: false }],
  ['/completion', { prompt: 'hi' }],
  ['/infill', { input_prefix: 'a', input_suffix: 'b' }],
];
const withHeaders = (headers: Record<string, string>): RequestInit => ({
  headers: { 'content-type': 'application/json', ...headers },
});

describe('the client of a request', () => {
  const ofHeaders = (by: string, headers: Record<string, string>, remoteAddress = '::ffff:10.0.0.7') =>
    readAdmission({ by }, { headers: new Headers(headers), remoteAddress }).client;

  test('is the peer, else the key on loopback, else the address', () => {
    expect(ofHeaders('peer:desk', { authorization: 'Bearer abc' })).toBe('peer:desk');
    expect(ofHeaders('bearer', { authorization: 'Bearer abc' })).toBe('address:10.0.0.7');
    expect(ofHeaders('local', {}, '127.0.0.1')).toBe('address:127.0.0.1');
    const key = ofHeaders('local', { authorization: 'Bearer abc' });
    expect(key).toMatch(/^key:[0-9a-f]{16}$/);
    expect(ofHeaders('local', { 'x-api-key': 'abc' })).toBe(key);
    expect(ofHeaders('local', { authorization: 'Bearer abd' })).not.toBe(key);
  });

  test.each(completions)('reaches the engine from %s, with the priority', async (path, body) => {
    const { post, engine } = await serve({ fim: true });
    const headers = { authorization: 'Bearer one', 'x-request-priority': 'batch' };
    const answer = await post(path, body, withHeaders(headers));
    expect(answer.status).toBe(200);
    await post(path, body, withHeaders({ authorization: 'Bearer two' }));
    const [first, second] = engine.requests;
    expect(first).toMatchObject({ client: expect.stringMatching(/^key:/), priority: 'batch' });
    expect(second).toMatchObject({ client: expect.stringMatching(/^key:/), priority: 'interactive' });
    expect(first?.client).not.toBe(second?.client);
  });

  test('is that of every answer of a stream with several', async () => {
    const { post, engine } = await serve({ capacity: 8 });
    const body = { messages, n: 5, stream: true };
    await readEvents(
      await post('/v1/chat/completions', body, withHeaders({ 'x-request-priority': 'batch' })),
    );
    expect(engine.requests.map(({ client, priority }) => `${client} ${priority}`)).toEqual(
      Array<string>(5).fill('address:127.0.0.1 batch'),
    );
  });
});

test('an account of the gateway of a host is a client', async () => {
  const engine = new ScriptedEngine();
  const resident = new Resident('loading');
  resident.setReady(engine);
  const database = freshSqlite();
  const faults: unknown[] = [];
  const [onNotice, onSecret] = [(text: string) => faults.push(text), () => undefined];
  const gateway = await openHostGateway({
    config: await readHostGateway({ path: undefined, database, env: {}, onNotice }),
    database,
    resident,
    stopSignal: new AbortController().signal,
    onFault: (_, error) => faults.push(error),
    observer: {},
    watch: noopTracer,
    onNotice,
    onSecret,
  });
  const books = await ledgerOn(database);
  const listener = await listen(gateway.app, { host: '127.0.0.1', port: 0 });
  try {
    const customers = [await customerOf(books), await customerOf(books)];
    for (const { secret } of customers) {
      const answer = await fetch(`http://127.0.0.1:${listener.port}/gateway/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'scripted', messages }),
      });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('Hello')]);
    }
    expect(engine.requests.map(({ client }) => client)).toEqual(
      customers.map(({ accountId }) => `account:${accountId}`),
    );
    expect(faults).toEqual([]);
  } finally {
    const closed = listener.close();
    await gateway.close(0);
    listener.destroyConnections();
    await closed;
    await books.close();
  }
});

test('the headers are documented on every completion route, and only there', async () => {
  const { get, planes } = await serve();
  const { paths } = (await (await get('/openapi.json')).json()) as {
    paths: Record<string, Record<string, { operationId: string; parameters?: { name: string }[] }>>;
  };
  const documented = Object.values(paths)
    .flatMap((verbs) => Object.values(verbs))
    .filter(({ parameters = [] }) => parameters.some(({ name }) => name === 'x-request-timeout'));
  const routes = planes.flatMap((plane) => plane.routes).filter(({ completion }) => completion);
  expect(documented.map(({ operationId }) => operationId).sort()).toEqual(
    routes.map(({ operationId }) => operationId).sort(),
  );
  expect(documented.length).toBeGreaterThan(10);
});

describe('invalid headers', () => {
  test.each(completions)('of %s are a 400 that names them all', async (path, body) => {
    const { post, engine } = await serve({ fim: true });
    const headers = { 'x-request-priority': 'urgent', 'x-request-timeout': '-1' };
    const answer = await post(path, body, withHeaders(headers));
    const text = await answer.text();
    expect(answer.status).toBe(400);
    expect(text).toContain("x-request-priority: expected interactive or batch, got 'urgent'");
    expect(text).toContain('x-request-timeout: expected seconds, more than 0 and at most 86400');
    expect(engine.requests).toEqual([]);
  });

  test.each(['', '0', 'soon', '1e3', '86401', 'NaN', '-1', '1 s'])(
    "a timeout of '%s' is refused",
    async (timeout) => {
      const { post } = await serve();
      const answer = await post(
        '/v1/chat/completions',
        { messages },
        withHeaders({ 'x-request-timeout': timeout }),
      );
      expect(answer.status).toBe(400);
    },
  );

  test('are ignored on routes that complete nothing', async () => {
    const { get } = await serve();
    expect((await get('/v1/models', { headers: { 'x-request-timeout': 'soon' } })).status).toBe(200);
  });
});

describe('a deadline', () => {
  const soon = withHeaders({ 'x-request-timeout': '0.05' });

  test.each(completions)(
    'of %s that passes before the answer is a 408, and the engine is free',
    async (path, body) => {
      const never = new Promise<void>(() => undefined);
      const { post, engine } = await serve({ hold: () => never, fim: true });
      const answer = await post(path, body, soon);
      expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([408, 'false']);
      expect(await answer.text()).toContain('within the 0.05 s of its header x-request-timeout');
      expect(engine.requests[0]?.signal?.aborted).toBe(true);
    },
  );

  test('ends a stream that has begun with an error', async () => {
    const never = new Promise<void>(() => undefined);
    const { post } = await serve({ hold: (piece) => (piece === 2 ? never : undefined) });
    const answer = await post('/v1/chat/completions', { messages, stream: true }, soon);
    expect(answer.status).toBe(200);
    const events = await readEvents(answer);
    expect(events.join('\n')).toContain('Hello');
    expect(events.at(-1)).toContain('"code":"deadline_exceeded"');
  });

  test('that is kept changes nothing', async () => {
    const { post } = await serve();
    const headers = withHeaders({ 'x-request-timeout': '600.5' });
    expect((await post('/v1/chat/completions', { messages }, headers)).status).toBe(200);
  });
});
