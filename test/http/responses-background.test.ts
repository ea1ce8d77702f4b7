import { afterEach, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import type { AccessControl } from '../../src/http/route.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { QueuedResponses } from '../../src/planes/v1/stored/queued-responses.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import {
  type ResponseEvent,
  responseEvent,
  responseObject,
} from '../../src/wires/responses/answer-schema.ts';
import { describeDatabases } from '../support/databases.ts';
import { readNamedEvents } from '../support/named-events.ts';
import type { Script } from '../support/scripted-engine.ts';
import { scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const route = '/v1/responses';
const background = { background: true };

/** The caller is who the header says. */
const access: AccessControl = {
  authorizeGate: (_, caller) => Promise.resolve(caller),
  authenticate: ({ headers }) => Promise.resolve({ by: headers.get('x-by') ?? 'local', isLocal: true }),
  requireRouteScope: () => undefined,
};

describeDatabases('responses in the background', (databaseUrl) => {
  const serve = scriptedServers();
  const stores: Store[] = [];
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });

  async function open(script: Script = {}) {
    const store = await Store.open({ url: await databaseUrl(), endpointId: 'e0' });
    stores.push(store);
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const queued = new QueuedResponses(store);
    const host = await serve(script, 'ready', undefined, [], { responses, queued, access });
    const create = async (body: object) =>
      responseObject
        .strict()
        .parse(await (await host.post(route, { input: 'hi', ...background, ...body })).json());
    const get = async (id: string) => responseObject.parse(await (await host.get(`${route}/${id}`)).json());
    const finished = async (id: string) => {
      await until(async () => !['queued', 'in_progress'].includes((await get(id)).status));
      return await get(id);
    };
    const eventsOf = async (response: Response): Promise<ResponseEvent[]> =>
      (await readNamedEvents(response)).map(({ name, data }) => {
        expect(data['type']).toBe(name);
        return responseEvent.parse(data);
      });
    const cancel = (id: string, by = 'local') =>
      host.get(`${route}/${id}/cancel`, { method: 'POST', headers: { 'x-by': by } });
    const refusal = async (response: Response) => ({
      status: response.status,
      ...openaiError.parse(await response.json()).error,
    });
    return { ...host, store, queued, create, find: get, finished, eventsOf, cancel, refusal };
  }
  /** A model that stops after some pieces until it is let go on. */
  const holding = () => {
    const held = Promise.withResolvers<void>();
    const script: Script = {
      answer: () => Array<string>(8).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    };
    return { script, release: () => held.resolve() };
  };

  test('queued at once, then in progress, then completed; it can be continued', async () => {
    const { script, release } = holding();
    const { create, find, finished, engine, post, refusal, get } = await open(script);
    const queued = await create({ metadata: { a: 'b' } });
    expect(queued).toMatchObject({
      status: 'queued',
      background: true,
      store: true,
      output: [],
      usage: null,
    });
    await until(async () => (await find(queued.id)).status === 'in_progress');
    const early = await post(route, { input: 'x', previous_response_id: queued.id });
    expect(await refusal(early)).toMatchObject({ status: 400, param: 'previous_response_id' });
    release();
    const response = await finished(queued.id);
    expect(response).toMatchObject({
      id: queued.id,
      created_at: queued.created_at,
      status: 'completed',
      background: true,
      metadata: { a: 'b' },
      output: [{ content: [{ text: 'xxxxxxxx' }] }],
      error: null,
    });
    expect(response.usage?.output_tokens).toBe(8);
    const next = await post(route, { input: 'And?', previous_response_id: queued.id });
    expect(next.status).toBe(200);
    expect(engine.tokenizer.decode(engine.requests[1]?.prompt ?? [])).toContain('xxxxxxxx');
    await until(async () => {
      const telemetry = (await (await get('/host/v1/telemetry')).json()) as {
        served: { completions: number };
      };
      return telemetry.served.completions >= 2;
    });
  });

  test('the stream goes on without its client, and is read again from any event', async () => {
    const { script, release } = holding();
    const { post, get, engine, eventsOf, finished } = await open(script);
    const left = new AbortController();
    const body = { input: 'hi', ...background, stream: true };
    const response = await post(route, body, { signal: left.signal });
    const reader = response.body?.getReader();
    let text = '';
    while (!text.includes('output_text.delta'))
      text += new TextDecoder().decode((await reader?.read())?.value);
    const id = /resp_\w+/.exec(text)?.[0] ?? '';
    left.abort();
    await reader?.cancel().catch(() => undefined);
    await until(() => engine.produced === 4);
    const live = get(`${route}/${id}?stream=true`);
    const later = get(`${route}/${id}?stream=true&starting_after=4`);
    release();
    const events = await eventsOf(await live);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
    expect(events.slice(0, 3).map(({ type }) => type)).toEqual([
      'response.created',
      'response.queued',
      'response.in_progress',
    ]);
    expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: await finished(id) });
    expect(await eventsOf(await later)).toEqual(events.slice(5));
    // From the database.
    expect(await eventsOf(await get(`${route}/${id}?stream=true&starting_after=2`))).toEqual(events.slice(3));
    const last = String(events.length - 1);
    expect(await eventsOf(await get(`${route}/${id}?stream=true&starting_after=${last}`))).toEqual([]);
  });

  test('a canceled response ends with what it has; canceling it again changes nothing', async () => {
    const { script, release } = holding();
    const { create, cancel, engine, find, refusal, post } = await open(script);
    const { id } = await create({});
    await until(() => engine.produced === 4);
    expect((await cancel(id, 'peer:x')).status).toBe(404);
    const canceled = responseObject.parse(await (await cancel(id)).json());
    expect(canceled).toMatchObject({ status: 'cancelled', output: [{ status: 'incomplete' }], error: null });
    release();
    await until(() => engine.running === 0);
    expect(responseObject.parse(await (await cancel(id)).json())).toEqual(canceled);
    expect(await find(id)).toEqual(canceled);
    const plain = responseObject.parse(await (await post(route, { input: 'hi' })).json());
    expect(await refusal(await cancel(plain.id))).toMatchObject({
      status: 400,
      message: expect.stringContaining('not created with `background`'),
    });
  });

  test('a response is canceled before its turn, and deleted while it is answered', async () => {
    const { script, release } = holding();
    const { create, cancel, engine, get, store } = await open(script);
    const { id } = await create({});
    await until(() => engine.produced === 4);
    expect((await get(`${route}/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect((await get(`${route}/${id}`)).status).toBe(404);
    expect(await store.read((db) => db.selectFrom('responses').select('id').execute())).toEqual([]);
    release();
    const other = await create({});
    expect(['cancelled', 'completed']).toContain(
      responseObject.parse(await (await cancel(other.id)).json()).status,
    );
  });

  test('a failure is stored, and is the end of the stream', async () => {
    const error = new EngineError('device_lost', 'the GPU was lost');
    const { create, finished, post, eventsOf } = await open({ fail: { after: 2, error } });
    const { id } = await create({});
    expect(await finished(id)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: expect.stringContaining('GPU') },
      output: [{ status: 'incomplete' }],
    });
    const events = await eventsOf(await post(route, { input: 'hi', ...background, stream: true }));
    expect(events.slice(-2).map(({ type }) => type)).toEqual(['error', 'response.failed']);
  });

  test('what an earlier start did not finish has failed; that of another host is left alone', async () => {
    const { script, release } = holding();
    const { create, find, queued, store, cancel, refusal } = await open(script);
    const { id } = await create({});
    await until(async () => (await find(id)).status === 'in_progress');
    // As a host that was killed and starts again.
    await new QueuedResponses(store).failInterrupted();
    expect(await find(id)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'The host stopped before the response was finished.' },
    });
    release();
    // That run goes on here, and ends last.
    await until(async () => (await find(id)).status === 'completed');
    await store.transaction((tx) =>
      tx
        .updateTable('responses')
        .set({ endpoint_id: 'other', status: 'queued' })
        .where('id', '=', id)
        .execute(),
    );
    await queued.failInterrupted();
    const rows = await store.read((db) => db.selectFrom('responses').select(['id', 'status']).execute());
    expect(rows).toEqual([{ id, status: 'queued' }]);
    const elsewhere = { ...(await find(id)), id: 'resp_elsewhere', status: 'queued' };
    await store.transaction((tx) =>
      tx
        .updateTable('responses')
        .set({ id: elsewhere.id, response: JSON.stringify(elsewhere) })
        .where('id', '=', id)
        .execute(),
    );
    expect(await refusal(await cancel(elsewhere.id))).toMatchObject({
      status: 409,
      code: 'answered_elsewhere',
    });
  });

  test('what is wrong is refused at once', async () => {
    const { post, get, refusal, create, finished } = await open();
    for (const [body, status, error] of [
      [{ store: false }, 400, { param: 'background' }],
      [{ model: 'other' }, 404, { code: 'model_not_found' }],
      [{ previous_response_id: 'resp_1' }, 400, { code: 'previous_response_not_found' }],
      [
        { input: [{ type: 'function_call_output', call_id: 'c', output: '' }] },
        400,
        { param: 'input.0.call_id' },
      ],
    ] as const)
      expect(await refusal(await post(route, { input: 'hi', ...background, ...body }))).toMatchObject({
        status,
        ...error,
      });
    const { id } = await create({});
    await finished(id);
    expect(await refusal(await get(`${route}/${id}?stream=true`))).toMatchObject({
      status: 400,
      param: 'stream',
    });
    expect(await refusal(await get(`${route}/${id}?stream=true&starting_after=x`))).toMatchObject({
      param: 'starting_after',
    });
  });
});
