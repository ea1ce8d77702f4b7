import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test } from 'vitest';
import { Peers } from '../../src/agent/sessions/peers.ts';
import { EngineError } from '../../src/engine/types.ts';
import type { AccessControl } from '../../src/http/route.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { deleteExpiredResponses, ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { responseObject } from '../../src/wires/responses/answer-schema.ts';
import { inputItemList } from '../../src/wires/responses/resource-schema.ts';
import { describeDatabases } from '../support/databases.ts';
import { readNamedEvents } from '../support/named-events.ts';
import type { Script } from '../support/scripted-engine.ts';
import { scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const route = '/v1/responses';
const day = 86_400_000;

/** The caller is who the header says. */
const access: AccessControl = {
  authorizeGate: (_, caller) => Promise.resolve(caller),
  authenticate: ({ headers }) => Promise.resolve({ by: headers.get('x-by') ?? 'local', isLocal: true }),
  requireRouteScope: () => undefined,
};

describeDatabases('stored responses', (databaseUrl, kind) => {
  const serve = scriptedServers();
  const stores: Store[] = [];
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });

  async function open(script: Script = {}) {
    const url = await databaseUrl();
    const clock = { ms: Date.now() };
    const store = await Store.open({ url, endpointId: 'e0', now: () => new Date(clock.ms) });
    stores.push(store);
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const host = await serve(script, 'ready', undefined, [], { responses, access });
    const create = async (body: object, by = 'local') => {
      const response = await host.post(route, body, {
        headers: { 'content-type': 'application/json', 'x-by': by },
      });
      expect(response.status).toBe(200);
      return responseObject.strict().parse(await response.json());
    };
    const ask = (method: string, path: string, by = 'local') =>
      host.get(`${route}/${path}`, { method, headers: { 'x-by': by } });
    const refusal = async (response: Response) => ({
      status: response.status,
      ...openaiError.parse(await response.json()).error,
    });
    const promptOf = (index: number) =>
      host.engine.tokenizer.decode(host.engine.requests[index]?.prompt ?? []);
    const rows = () => store.read((db) => db.selectFrom('responses').selectAll().execute());
    return { ...host, url, clock, store, create, ask, refusal, promptOf, rows };
  }

  test('a response is continued: its items, not its instructions, come before the input', async () => {
    const { create, promptOf, ask } = await open();
    const first = await create({ input: 'My name is Ana.', instructions: 'Be brief.' });
    expect(first).toMatchObject({ store: true, previous_response_id: null });
    const second = await create({ input: 'What is my name?', previous_response_id: first.id });
    expect(second).toMatchObject({ store: true, previous_response_id: first.id, instructions: null });
    const third = await create({ input: 'Sure?', previous_response_id: second.id, instructions: 'Be long.' });
    await create({
      instructions: 'Be long.',
      store: false,
      input: [
        { role: 'user', content: 'My name is Ana.' },
        ...first.output,
        { role: 'user', content: 'What is my name?' },
        ...second.output,
        { role: 'user', content: 'Sure?' },
      ],
    });
    expect(promptOf(2)).toBe(promptOf(3));
    expect(promptOf(2)).toContain('My name is Ana.');
    expect(await (await ask('GET', third.id)).json()).toEqual(third);
  });

  test('an output continues the call of the previous response', async () => {
    const call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>';
    const { create, promptOf, post } = await open({ answer: () => [call] });
    const tools = [{ type: 'function', name: 'weather' }];
    const first = await create({ input: 'Rain?', tools });
    const [item] = first.output;
    if (item?.type !== 'function_call') throw new Error('no call');
    const output = { type: 'function_call_output', call_id: item.call_id, output: 'It pours.' };
    await create({ input: [output], tools, previous_response_id: first.id });
    expect(promptOf(1)).toContain('It pours.');
    const lost = await post(route, {
      input: [
        { role: 'user', content: 'x' },
        { ...output, call_id: 'c' },
      ],
      previous_response_id: first.id,
    });
    expect(openaiError.parse(await lost.json()).error).toMatchObject({ param: 'input.1.call_id' });
  });

  test('a streamed response is stored before its last event', async () => {
    const { post, ask } = await open();
    const events = await readNamedEvents(await post(route, { input: 'hi', stream: true }));
    const last = responseObject.parse(events.at(-1)?.data['response']);
    expect(responseObject.parse(events[0]?.data['response'])).toMatchObject({ id: last.id, store: true });
    expect(await (await ask('GET', last.id)).json()).toEqual(last);
  });

  test('with `store: false` nothing is stored, and the response cannot be continued', async () => {
    const { create, ask, refusal, post, rows } = await open();
    const empty = await post(route, { input: 'hi', previous_response_id: '' });
    expect(await refusal(empty)).toMatchObject({ code: 'previous_response_not_found' });
    const { id, store } = await create({ input: 'hi', store: false });
    expect(store).toBe(false);
    expect(await rows()).toEqual([]);
    expect(await refusal(await ask('GET', id))).toMatchObject({ status: 404, code: 'response_not_found' });
    expect(await refusal(await post(route, { input: 'hi', previous_response_id: id }))).toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
      message: expect.stringContaining(`Previous response with id '${id}' not found`),
    });
  });

  test('input items: those of the whole conversation, in pages of either order', async () => {
    const { create, ask, refusal } = await open();
    const first = await create({
      input: [
        { role: 'developer', content: 'Be kind.' },
        { role: 'user', content: [{ type: 'input_text', text: 'one' }] },
        { role: 'assistant', content: 'two' },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'why' }] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'four' }] },
      ],
    });
    const { id } = await create({ input: 'five', previous_response_id: first.id });
    const list = async (query: string) =>
      inputItemList.parse(await (await ask('GET', `${id}/input_items${query}`)).json());
    const all = await list('?order=asc&limit=100&include=message.output_text.logprobs');
    expect(all.data).toMatchObject([
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be kind.' }] },
      { type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text: 'one' }] },
      { role: 'assistant', content: [{ type: 'output_text', text: 'two', annotations: [] }] },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'why' }], content: [] },
      { type: 'function_call', call_id: 'c', status: 'completed', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'four' }] },
      first.output[0],
      { role: 'user', content: [{ type: 'input_text', text: 'five' }] },
    ]);
    expect(new Set(all.data.map((item) => item.id)).size).toBe(8);
    expect((await list('')).data).toEqual(all.data.toReversed());
    const page = await list('?limit=3');
    expect(page).toMatchObject({ has_more: true, first_id: all.data[7]?.id, last_id: all.data[5]?.id });
    const rest = await list(`?after=${page.last_id}`);
    expect([...page.data, ...rest.data]).toEqual(all.data.toReversed());
    expect(rest.has_more).toBe(false);
    const wrong = await refusal(await ask('GET', `${id}/input_items?limit=0&order=up&include=x`));
    expect(wrong.status).toBe(400);
    expect(wrong.violations?.map(({ path }) => path)).toEqual(['limit', 'order', 'include']);
    expect(await refusal(await ask('GET', `${id}/input_items?after=x`))).toMatchObject({ param: 'after' });
    expect((await ask('GET', 'resp_1/input_items')).status).toBe(404);
  });

  test('a deleted response is gone, and what continues it cannot be continued', async () => {
    const { create, ask, refusal, post, rows } = await open();
    const first = await create({ input: 'one' });
    const second = await create({ input: 'two', previous_response_id: first.id });
    expect(await (await ask('DELETE', first.id)).json()).toEqual({
      id: first.id,
      object: 'response',
      deleted: true,
    });
    for (const method of ['GET', 'DELETE'])
      expect(await refusal(await ask(method, first.id))).toMatchObject({
        status: 404,
        message: expect.stringContaining(first.id),
      });
    expect((await ask('GET', second.id)).status).toBe(200);
    const items = await (await ask('GET', `${second.id}/input_items`)).json();
    expect(inputItemList.parse(items).data).toHaveLength(1);
    for (const id of [first.id, second.id])
      expect(await refusal(await post(route, { input: 'three', previous_response_id: id }))).toMatchObject({
        status: 400,
        code: 'previous_response_not_found',
        message: expect.stringContaining(first.id),
      });
    expect((await rows()).map(({ id }) => id)).toEqual([second.id]);
  });

  test('responses that are too old are not found, and then deleted', async () => {
    const { create, ask, clock, store, rows } = await open();
    const old = await create({ input: 'one' });
    clock.ms += 20 * day;
    const young = await create({ input: 'two' });
    expect(await deleteExpiredResponses(store, 30)).toBe(0);
    clock.ms += 10 * day;
    expect((await ask('GET', old.id)).status).toBe(404);
    expect((await ask('GET', young.id)).status).toBe(200);
    expect(await deleteExpiredResponses(store, 30)).toBe(1);
    expect((await rows()).map(({ id }) => id)).toEqual([young.id]);
  });

  test('a response belongs to who asked for it', async () => {
    const { create, ask, post, refusal, store, clock } = await open();
    const peers = new Peers({ store });
    for (const name of ['ana', 'ben']) await peers.mint(name, 'operator');
    clock.ms += 1000;
    const ofAna = await create({ input: 'mine' }, 'peer:ana');
    const ofHost = await create({ input: 'ours' }, 'bearer');
    for (const [id, by, status] of [
      [ofAna.id, 'peer:ana', 200],
      [ofAna.id, 'peer:ben', 404],
      [ofAna.id, 'bearer', 404],
      [ofHost.id, 'operator', 200],
      [ofHost.id, 'local', 200],
      [ofHost.id, 'peer:ana', 404],
    ] as const) {
      expect([id, by, (await ask('GET', id, by)).status]).toEqual([id, by, status]);
      expect((await ask('GET', `${id}/input_items`, by)).status).toBe(status);
      if (status === 404) {
        expect((await ask('DELETE', id, by)).status).toBe(404);
        const headers = { 'content-type': 'application/json', 'x-by': by };
        const continued = await post(route, { input: 'x', previous_response_id: id }, { headers });
        expect(await refusal(continued)).toMatchObject({ code: 'previous_response_not_found' });
      }
    }
    // Another peer under the same name.
    await peers.revoke('ana', 'operator');
    clock.ms += 1000;
    await peers.mint('ana', 'operator');
    expect((await ask('GET', ofAna.id, 'peer:ana')).status).toBe(404);
  });

  test('of a client that leaves a stream, what was answered is stored as canceled', async () => {
    const held = Promise.withResolvers<void>();
    const { post, rows, engine, ask, create } = await open({
      answer: () => Array<string>(50).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const left = new AbortController();
    const response = await post(route, { input: 'secret', stream: true }, { signal: left.signal });
    await until(() => engine.produced === 4);
    left.abort();
    await response.text().catch(() => undefined);
    await until(() => engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(async () => (await rows()).length === 1);
    const [row] = await rows();
    const stored = responseObject.parse(await (await ask('GET', row?.id ?? '')).json());
    expect(stored).toMatchObject({ status: 'cancelled', completed_at: null, error: null });
    expect(stored.output).toMatchObject([
      { status: 'incomplete', content: [{ text: expect.stringMatching(/^x+$/) }] },
    ]);
    expect((await create({ input: 'Go on.', previous_response_id: stored.id })).status).toBe('completed');
    // A buffered response has no id that anyone knows.
    const gone = new AbortController();
    const before = engine.requests.length;
    const buffered = post(route, { input: 'hi' }, { signal: gone.signal }).catch(() => undefined);
    await until(() => engine.requests.length > before);
    gone.abort();
    await buffered;
    await until(() => engine.running === 0);
  });

  test('a stream that fails is stored as failed', async () => {
    const error = new EngineError('device_lost', 'the GPU was lost');
    const { post, ask, rows } = await open({ fail: { after: 2, error } });
    const events = await readNamedEvents(await post(route, { input: 'hi', stream: true }));
    const last = responseObject.parse(events.at(-1)?.data['response']);
    expect(last).toMatchObject({ status: 'failed', error: { code: 'server_error' } });
    expect(await (await ask('GET', last.id)).json()).toEqual(last);
    expect((await post(route, { input: 'hi' })).status).toBe(503);
    expect(await rows()).toHaveLength(1);
  });

  test('a database that fails is a 503, in a stream a failure', async () => {
    const { post, store, ask, refusal } = await open();
    await store.close();
    expect(await refusal(await post(route, { input: 'hi' }))).toMatchObject({
      status: 503,
      code: 'storage_failed',
    });
    const events = await readNamedEvents(await post(route, { input: 'hi', stream: true }));
    expect(events.at(-2)).toMatchObject({ name: 'error', data: { code: 'storage_failed' } });
    expect(events.at(-1)).toMatchObject({ name: 'response.failed' });
    expect((await ask('GET', 'resp_1')).status).toBe(503);
    expect((await post(route, { input: 'hi', store: false })).status).toBe(200);
  });

  if (kind === 'sqlite')
    describe('the bytes of the database', () => {
      const bytesOf = (url: string) => {
        const path = url.replace('sqlite:', '');
        return ['', '-wal'].map((suffix) => readFileSync(path + suffix, 'latin1')).join('');
      };

      test('are removed later where another process reads the file, and the response is deleted all the same', async () => {
        const { create, ask, url, store } = await open();
        const { id } = await create({ input: 'a read secret' });
        const reader = new DatabaseSync(url.replace('sqlite:', ''));
        try {
          reader.exec('begin');
          reader.prepare('select count(*) from responses').get();
          expect((await ask('DELETE', id)).status).toBe(200);
          expect([store.isEraseDue, bytesOf(url).includes('a read secret')]).toEqual([true, true]);
          reader.exec('rollback');
        } finally {
          reader.close();
        }
        expect(await deleteExpiredResponses(store, 30)).toBe(0);
        expect([store.isEraseDue, bytesOf(url).includes('a read secret')]).toEqual([false, false]);
      });

      test('have nothing of a deleted response, or of one that was too old', async () => {
        const { create, ask, url, clock, store } = await open();
        const ids = new Map<string, string>();
        for (let index = 0; index < 24; index++) {
          const secret = `secret-${index}-${'y'.repeat(index * 100)}`;
          ids.set(secret, (await create({ input: secret, metadata: { secret: `meta-${index}-` } })).id);
        }
        const secrets = [...ids.keys()];
        expect(secrets.every((secret) => bytesOf(url).includes(secret))).toBe(true);
        // The first alone, the others at once.
        const [first = '', ...others] = secrets.slice(0, 16);
        await ask('DELETE', ids.get(first) ?? '');
        expect(bytesOf(url)).not.toContain('secret-0-');
        await Promise.all(others.map((secret) => ask('DELETE', ids.get(secret) ?? '')));
        const left = bytesOf(url);
        for (let index = 0; index < 24; index++) {
          expect([index, left.includes(`secret-${index}-`)]).toEqual([index, index >= 16]);
          expect([index, left.includes(`meta-${index}-`)]).toEqual([index, index >= 16]);
        }
        clock.ms += 31 * day;
        expect(await deleteExpiredResponses(store, 30)).toBe(8);
        expect(bytesOf(url)).not.toContain('secret-');
      });
    });
});
