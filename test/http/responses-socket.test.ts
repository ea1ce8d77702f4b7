import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { HttpError } from '../../src/http/error.ts';
import type { AccessControl } from '../../src/http/route.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { responseEvent, responseObject } from '../../src/wires/responses/answer-schema.ts';
import { freshSqlite } from '../support/databases.ts';
import { scriptedServers } from '../support/serve.ts';
import { connectSocket, isTerminal, type SocketMessage } from '../support/socket-turns.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

async function connect(url: string, options: object = {}) {
  const client = await connectSocket(url, options);
  cleanups.push(() => client.socket.terminate());
  const complete = async (body: object) => {
    const { type, response } = await client.ask(body);
    expect(type).toBe('response.completed');
    return responseObject.parse(response);
  };
  return { ...client, complete };
}
/** The error of an envelope. */
const errorOf = ({ type, status, error }: SocketMessage) => {
  expect(type).toBe('error');
  return { status, ...(error as object) };
};

describe('responses over a WebSocket', () => {
  test('the events are those of the stream, one message each; turns run one after the other', async () => {
    const { url, engine } = await serve({ answer: () => ['a', 'b'] });
    const { send, next, messages } = await connect(url);
    send({ type: 'response.create', input: 'one', model: 'scripted', tools: [] });
    send({ type: 'response.create', input: 'two' });
    const [first, second] = [await next(), await next()];
    expect(messages.map((event) => responseEvent.parse(event))).toEqual(messages);
    const half = messages.length / 2;
    const types = messages.map(({ type }) => String(type).replace('response.', ''));
    expect(types.slice(half)).toEqual(types.slice(0, half));
    expect(types.slice(0, half)).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ]);
    expect(messages.map(({ sequence_number }) => sequence_number)).toEqual(
      messages.map((_, index) => index % half),
    );
    expect([first, second].map(({ response }) => responseObject.parse(response).store)).toEqual([
      false,
      false,
    ]);
    expect(engine.requests).toHaveLength(2);
  });

  test('the last response is continued without being stored, on this connection alone', async () => {
    const { url, engine } = await serve();
    const promptOf = (index: number) => engine.tokenizer.decode(engine.requests[index]?.prompt ?? []);
    const one = await connect(url);
    const first = await one.complete({ input: 'The word is cobalt.', store: false });
    const second = await one.complete({ input: 'Which?', previous_response_id: first.id });
    expect(second.previous_response_id).toBe(first.id);
    const third = await one.complete({ input: 'Sure?', previous_response_id: second.id });
    for (const text of ['cobalt', 'Which?', 'Sure?', 'Hello, world!']) expect(promptOf(2)).toContain(text);
    for (const [socket, id] of [
      [one, first.id],
      [await connect(url), third.id],
    ] as const) {
      expect(errorOf(await socket.ask({ input: 'x', previous_response_id: id }))).toMatchObject({
        status: 400,
        code: 'previous_response_not_found',
        param: 'previous_response_id',
      });
      expect((await socket.complete({ input: 'a new chain' })).previous_response_id).toBeNull();
    }
  });

  test('a continuation that fails loses what it continues', async () => {
    const { url } = await serve();
    const { complete, ask } = await connect(url);
    const { id: previous_response_id } = await complete({ input: 'hi' });
    const output = { type: 'function_call_output', call_id: 'call_1', output: 'x' };
    expect(errorOf(await ask({ input: [output], previous_response_id }))).toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'input.0.call_id',
    });
    expect(errorOf(await ask({ input: 'hi', previous_response_id }))).toMatchObject({
      code: 'previous_response_not_found',
    });
  });

  test('on a host that stores, older responses are continued; a chain may begin unstored', async () => {
    const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
    cleanups.push(() => store.close());
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const { url, engine, get } = await serve({}, 'ready', undefined, [], { responses });
    const one = await connect(url);
    const first = await one.complete({ input: 'unstored', store: false });
    const second = await one.complete({ input: 'two', previous_response_id: first.id });
    expect(second.store).toBe(true);
    expect(await (await get(`/v1/responses/${second.id}`)).json()).toEqual(second);
    await one.complete({ input: 'else' });
    const other = await connect(url);
    const third = await other.complete({ input: 'three', previous_response_id: second.id });
    expect(engine.tokenizer.decode(engine.requests[3]?.prompt ?? [])).toContain('unstored');
    expect(third.store).toBe(true);
  });

  test('a message that is no turn is an error of its own, with every violation', async () => {
    const { url } = await serve();
    const { send, next, ask, complete } = await connect(url);
    send('{');
    expect(errorOf(await next())).toMatchObject({ status: 400, code: expect.any(String) });
    send([]);
    expect(errorOf(await next())).toMatchObject({ param: 'type' });
    expect(errorOf(await ask({ input: 'x', stream: false, background: true }))).toMatchObject({
      violations: [{ path: 'background' }, { path: 'stream' }],
    });
    expect(errorOf(await ask({ input: 3, temperature: 9 }))).toMatchObject({
      violations: [{ path: 'input' }, { path: 'temperature' }],
    });
    expect(errorOf(await ask({ input: 'x', model: 'other' }))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    await complete({ input: 'x', stream: true, stream_options: {}, background: false });
  });

  test('a response that fails ends with its own event', async () => {
    const { url } = await serve({ fail: { after: 2, error: new EngineError('device_lost', 'lost') } });
    const { ask, messages } = await connect(url);
    expect(await ask({ input: 'hi' })).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' } },
    });
    expect(messages.map(({ sequence_number }) => sequence_number)).toEqual([...messages.keys()]);
    expect(await ask({ input: 'hi' })).toMatchObject({ type: 'response.failed' });
  });

  test('a client that leaves stops the engine', async () => {
    const held = Promise.withResolvers<void>();
    const { url, engine, faults } = await serve({
      answer: () => Array<string>(500).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const { socket, send } = await connect(url);
    send({ type: 'response.create', input: 'hi' });
    await until(() => engine.produced === 4);
    socket.terminate();
    await until(() => engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => engine.running === 0);
    expect(engine.produced).toBe(4);
    expect(faults).toEqual([]);
  });

  test('too many waiting messages are refused', async () => {
    const held = Promise.withResolvers<void>();
    const { url, engine } = await serve({ hold: (piece) => (piece === 2 ? held.promise : undefined) });
    const { send, messages } = await connect(url);
    // The first has begun, and is not ended by what is refused.
    send({ type: 'response.create', input: 'hi' });
    await until(() => messages.length > 4);
    for (let index = 1; index < 20; index++) send({ type: 'response.create', input: 'hi' });
    await until(() => messages.filter(({ type }) => type === 'error').length === 3);
    expect(errorOf(messages.at(-1) ?? {})).toMatchObject({ status: 429, code: 'too_many_messages' });
    held.resolve();
    await until(() => messages.filter(isTerminal).length === 20);
    expect(engine.requests).toHaveLength(17);
    expect(messages.filter(({ type }) => type === 'response.completed')).toHaveLength(17);
  });

  test('messages that are too large together, or alone, are not kept', async () => {
    const held = Promise.withResolvers<void>();
    const { url } = await serve({ hold: (piece) => (piece === 0 ? held.promise : undefined) });
    const { send, messages, closed } = await connect(url);
    const large = JSON.stringify({ type: 'response.create', input: 'x', ignored: 'x'.repeat(17_000_000) });
    send(large);
    send(large);
    await until(() => messages.length === 1);
    expect(errorOf(messages[0] ?? {})).toMatchObject({ status: 429, code: 'too_many_messages' });
    send('x'.repeat(34_000_000));
    expect(await closed).toBe(1009);
    held.resolve();
  });

  test('the connection ends at its time limit, with an error that says so', async () => {
    const { url } = await serve({}, 'ready', undefined, [], { socketAgeMs: 200 });
    const { next, closed } = await connect(url);
    expect(errorOf(await next())).toMatchObject({ status: 400, code: 'websocket_connection_limit_reached' });
    expect(await closed).toBe(1000);
  });

  test('turns are counted like other completions', async () => {
    const { url, get } = await serve();
    await (await connect(url)).complete({ input: 'hi' });
    await until(async () => {
      const { served } = (await (await get('/host/v1/telemetry')).json()) as {
        served: { completions: number };
      };
      return served.completions === 1;
    });
  });

  test('turns have the client, priority and time limit of the request that opened the connection', async () => {
    const held = Promise.withResolvers<void>();
    const { url, engine } = await serve({
      hold: () => (engine.requests.length > 1 ? held.promise : undefined),
    });
    const headers = {
      authorization: 'Bearer own',
      'x-request-priority': 'batch',
      'x-request-timeout': '1',
    };
    const { complete, ask } = await connect(url, { headers });
    await complete({ input: 'hi' });
    expect(engine.requests[0]).toMatchObject({
      client: expect.stringMatching(/^key:[0-9a-f]{16}$/),
      priority: 'batch',
    });
    expect(await ask({ input: 'hi' })).toMatchObject({ type: expect.stringMatching(/error|failed/) });
    held.resolve();
    const refused = connect(url, { headers: { 'x-request-priority': 'high', 'x-request-timeout': '-1' } });
    await expect(refused).rejects.toThrow(/^400 .*x-request-priority.*x-request-timeout/);
  });

  test('who may not ask may not connect: foreign hosts, pages and callers', async () => {
    const { url } = await serve();
    await expect(connect(url, { headers: { host: 'evil.example' } })).rejects.toThrow('403');
    await expect(connect(url, { origin: 'https://evil.example' })).rejects.toThrow('foreign_origin');
    await (await connect(url, { origin: url })).complete({ input: 'hi' });
    const allowing = await serve({}, 'ready', undefined, [], { allowedOrigins: ['https://app.example'] });
    await (await connect(allowing.url, { origin: 'https://app.example' })).complete({ input: 'hi' });
    await expect(connect(allowing.url, { origin: 'https://evil.example' })).rejects.toThrow(
      '--allowed-origin https://evil.example',
    );
    await expect(connect(`${url}/v1/x`)).rejects.toThrow('404');
    let isRevoked = false;
    const access: AccessControl = {
      authorizeGate: (_, caller) => Promise.resolve(caller),
      requireRouteScope: () => undefined,
      authenticate: ({ headers }) => {
        if (headers.get('authorization') === 'Bearer good' && !isRevoked)
          return Promise.resolve({ by: 'peer:x', isLocal: false });
        const options = { headers: { 'www-authenticate': 'Bearer' } };
        return Promise.reject(new HttpError(401, 'unauthorized', 'No token.', options));
      },
    };
    const guarded = await serve({}, 'ready', undefined, [], { access });
    await expect(connect(guarded.url)).rejects.toThrow(/401 .*unauthorized/);
    const { complete, ask, closed } = await connect(guarded.url, {
      headers: { authorization: 'Bearer good' },
    });
    await complete({ input: 'hi' });
    isRevoked = true;
    expect(errorOf(await ask({ input: 'hi' }))).toMatchObject({ status: 401, code: 'unauthorized' });
    expect(await closed).toBe(1008);
  });

  test('another protocol is not accepted: the request is served as it is', async () => {
    const { url } = await serve();
    const { request } = await import('node:http');
    const status = await new Promise((resolve) => {
      const headers = { connection: 'Upgrade', upgrade: 'h2c', 'content-type': 'application/json' };
      const sent = request(`${url}/v1/responses`, { method: 'POST', headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.end(JSON.stringify({ input: 'hi' }));
    });
    expect(status).toBe(200);
    const plain = await fetch(`${url}/v1/responses`);
    expect(plain.status).toBe(405);
  });
});
