import { afterEach, describe, expect, it } from 'vitest';
import { turnEvent, type TurnEvent } from '../../src/agent/shapes/turn-event.ts';
import { StoreError } from '../../src/store/index.ts';
import { describeDatabases, freshSqlite } from '../support/databases.ts';
import { type OpenAiScript, scriptedOpenAi } from '../support/scripted-openai.ts';
import { routeServers } from '../support/serve-routes.ts';
import { until } from '../support/until.ts';
import { openTaskWorld } from '../support/task-world.ts';
import { changeTool, okOutput, readTool } from '../support/turn-world.ts';

const serve = routeServers();
const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

const look = readTool('look', () => okOutput('a cat'));
const eyes = { name: 'eyes', instructions: 'Look.', grants: { tools: ['look', 'write'] } };
type WorldOptions = Parameters<typeof openTaskWorld>[1];

describeDatabases('tasks', (url) => {
  const start = async (script: OpenAiScript, options: WorldOptions = {}) => {
    const gateway = await scriptedOpenAi(script);
    open.push(() => gateway.close());
    const world = await openTaskWorld(await url(), {
      gateway: gateway.url,
      key: 'sk-very-secret',
      tools: [look, changeTool('write')],
      agents: [eyes],
      ...options,
    });
    open.push(async () => {
      await world.tasks.stop();
      await world.store.close();
    });
    const server = await serve(world.routes);
    const post = (body: unknown, headers: Record<string, string> = {}) =>
      server.send('POST', '/agent/v1/tasks', body, headers);
    const get = async <T>(path: string) => (await (await server.send('GET', path)).json()) as T;
    return { ...server, ...world, gateway, post, get };
  };

  it('streams a task from start to answer, and stores all events', async () => {
    const { post, gateway, get, store, closed } = await start([
      { reasoning: 'Hm.', calls: [{ name: 'look', arguments: { at: 'it' } }] },
      { text: 'A cat.' },
    ]);
    const response = await post({ prompt: 'What is it?\nLook.', agent: 'eyes', unknown: 1 });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    expect(response.headers.get('x-svc-session')).toBe('shere-1');
    expect(response.headers.get('x-svc-session-secret')).toBe('secret-1');
    const lines = await linesOf(response);
    expect(lines.map(({ type }) => type)).toEqual(
      'start turn reasoning usage tool_call tool_result turn delta usage answer'.split(' '),
    );
    expectWhole(lines);
    expect(lines[0]).toMatchObject({ task_id: 't1', agent: 'eyes', session_id: 'shere-1' });
    expect(gateway.requests[0]?.authorization).toBe('Bearer sk-very-secret');
    expect(gateway.requests[0]?.body.tools?.map((tool) => tool.function.name)).toEqual(['look', 'write']);
    expect(gateway.requests[1]?.body.messages.at(-1)).toEqual({
      role: 'tool',
      tool_call_id: 'call_0',
      content: 'a cat',
    });

    const detail = await get<object>('/agent/v1/tasks/t1');
    expect(detail).toEqual({
      id: 't1',
      kind: 'task',
      title: 'What is it? Look.',
      state: 'completed',
      started_at: expect.any(String),
      ended_at: expect.any(String),
      last_event: 'completed',
      tokens: { prompt: 20, completion: expect.any(Number) },
      route: { engine: 'gateway', model: 'scripted' },
      cancellable: false,
      ok: true,
      agent: 'eyes',
      outcome: 'answer',
      answer: 'A cat.',
      session_id: 'shere-1',
      parts: 1,
      part_seq: 0,
      last_seq: lines.length - 1,
      turns: [
        { n: 1, tool_calls: [{ tool: 'look', ok: true }] },
        { n: 2, text: 'A cat.', tool_calls: [] },
      ],
    });
    const { receipts, signals } = await rows(store);
    expect(receipts).toMatchObject([{ id: 't1', kind: 'task', outcome: 'completed', agent: 'eyes' }]);
    expect(signals).toMatchObject([
      { name: 'task.started', data: { id: 't1', agent: 'eyes' } },
      { name: 'task.completed', data: { id: 't1', agent: 'eyes' } },
    ]);
    expect(closed).toEqual(['shere-1']);
  });

  it('replays the stream from any event, to two readers at once and while it grows', async () => {
    const { post, url: at, gateway } = await start(() => ({ text: 'word '.repeat(60), chunkMs: 5 }));
    const response = await post({ prompt: 'Go.' });
    const reader = response.body?.getReader();
    await reader?.read();
    // The client disconnects during the stream.
    await reader?.cancel();
    const readFrom = async (after: string) => linesOf(await fetch(`${at}/agent/v1/tasks/t1/events${after}`));
    const [whole, rest, none] = await Promise.all([
      readFrom(''),
      readFrom('?after=1'),
      readFrom('?after=100000'),
    ]);
    expectWhole(whole);
    expect(rest).toEqual(whole.slice(2));
    expect(none).toEqual([]);
    expect(textOf(whole)).toBe('word '.repeat(60));
    for (let after = -1; after <= whole.length; after += 3)
      expect(await readFrom(`?after=${after}`)).toEqual(whole.slice(after + 1));
    expect(gateway.left).toBe(0);
  });

  it('does not wait for a slow reader', async () => {
    const { post, url: at, tasks } = await start([{ text: 'x'.repeat(60_000) }]);
    const slow = await post({ prompt: 'Go.' });
    const reader = slow.body?.getReader();
    await reader?.read();
    const whole = await linesOf(await fetch(`${at}/agent/v1/tasks/t1/events`));
    expect(whole.at(-1)?.type).toBe('answer');
    expect(tasks.isLive('t1')).toBe(false);
    const late: Uint8Array[] = [];
    for (let next = await reader?.read(); next?.value; next = await reader?.read()) late.push(next.value);
    expect(Buffer.concat(late).toString().trimEnd().split('\n').at(-1)).toBe(JSON.stringify(whole.at(-1)));
  });

  it('replays a task for its idempotency key, during and after the task, and refuses another body', async () => {
    const { post, gateway, tasks } = await start(() => ({ text: 'once '.repeat(20), chunkMs: 10 }));
    const headers = { 'idempotency-key': 'k'.repeat(255) };
    const body = { prompt: 'Go.', inputs: { a: 1, b: 2 } };
    const [first, second] = await Promise.all([post(body, headers), post(body, headers)]);
    const [a, b] = await Promise.all([linesOf(first), linesOf(second)]);
    expect(a).toEqual(b);
    const third = await post({ inputs: { b: 2, a: 1 }, prompt: 'Go.' }, headers);
    expect(third.headers.get('x-svc-session')).toBe('shere-1');
    expect(third.headers.get('x-svc-session-secret')).toBeNull();
    expect(await linesOf(third)).toEqual(a);
    expect(gateway.requests).toHaveLength(1);
    expect(tasks.served).toBe(1);
    const other = await post({ prompt: 'Stop.' }, headers);
    expect([other.status, await codeOf(other)]).toEqual([409, 'idempotency_conflict']);
    expect((await post(body, { 'idempotency-key': 'k'.repeat(256) })).status).toBe(400);
  });

  it('refuses a body with all of its faults, and stores nothing', async () => {
    const { post, store } = await start([{}]);
    const wrong = await post({ prompt: '', agent: 'No!', limits: { max_turns: 0 }, cwd: 7 });
    expect(wrong.status).toBe(400);
    expect(await pathsOf(wrong)).toEqual(['agent', 'cwd', 'limits.max_turns', 'prompt']);
    const grants = { tools: ['look', '*'], read: ['/etc', 'here'], auto_approve: ['write'] };
    const wide = await post({ prompt: 'Go.', agent: 'eyes', cwd: 'here', grants });
    expect(wide.status).toBe(400);
    expect(await pathsOf(wide)).toEqual([
      'cwd',
      'grants.auto_approve.0',
      'grants.read.0',
      'grants.read.1',
      'grants.tools.1',
    ]);
    const unknown = await post({ prompt: 'Go.', agent: 'nobody' });
    expect([unknown.status, await pathsOf(unknown)]).toEqual([400, ['agent']]);
    expect((await rows(store)).tasks).toEqual([]);
  });

  it('narrows the grants to the requested ones', async () => {
    const { post, gateway } = await start([{ calls: [{ name: 'write' }] }, { text: 'ok' }]);
    const lines = await linesOf(await post({ prompt: 'Go.', agent: 'eyes', grants: { tools: ['look'] } }));
    expect(gateway.requests[0]?.body.tools?.map((tool) => tool.function.name)).toEqual(['look']);
    expect(lines.find(({ type }) => type === 'tool_result')).toMatchObject({ ok: false });
  });

  it('refuses unknown tasks, and invalid positions', async () => {
    const { send } = await start([{}]);
    for (const path of ['/agent/v1/tasks/t9', '/agent/v1/tasks/t9/events', '/agent/v1/tasks/r1']) {
      const response = await send('GET', path);
      expect([response.status, await codeOf(response)]).toEqual([404, 'unknown_task']);
    }
    for (const after of ['x', '-2', '1.5', '']) {
      const response = await send('GET', `/agent/v1/tasks/t9/events?after=${after}`);
      expect([response.status, await pathsOf(response)]).toEqual([400, ['after']]);
    }
  });

  it('applies sampling, limits and response format of a request', async () => {
    const { post, gateway } = await start([{ text: '{"a":1}' }]);
    const schema = { type: 'object' };
    await linesOf(
      await post({
        prompt: 'Go.',
        limits: { max_tokens: 77 },
        sampling: { temperature: 0, seed: 4 },
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
      }),
    );
    expect(gateway.requests[0]?.body).toMatchObject({
      temperature: 0,
      seed: 4,
      max_tokens: 77,
      response_format: { type: 'json_schema', json_schema: { schema } },
    });
  });

  describe('stopped by a person', () => {
    const stopped = async ({ send }: { send: (method: string, path: string) => Promise<Response> }) => {
      const response = await send('POST', '/agent/v1/tasks/t1/stop');
      return [response.status, await response.json()];
    };

    it('a task ends at once while its model answers, as cancelled', async () => {
      const world = await start([{ hang: true }]);
      const response = await world.post({ prompt: 'Go.' });
      expect(await stopped(world)).toEqual([200, { id: 't1', stopped: true }]);
      const lines = await linesOf(response);
      expect(lines.at(-1)).toMatchObject({
        type: 'aborted',
        reason: 'cancelled',
        message: 'The task was stopped.',
      });
      expectWhole(lines);
      expect(await world.get('/agent/v1/tasks/t1')).toMatchObject({
        ok: false,
        state: 'cancelled',
        outcome: 'cancelled',
        last_event: 'cancelled',
      });
      const { receipts, acts } = await rows(world.store);
      expect(receipts).toMatchObject([{ outcome: 'cancelled', close_reason: 'cancelled' }]);
      expect(acts).toMatchObject([{ verb: 'task.stop', target: 't1', outcome: 'applied' }]);
      expect(world.closed).toEqual(['shere-1']);
      expect(await stopped(world)).toMatchObject([409, { error: { code: 'not_running' } }]);
      expect((await world.send('POST', '/agent/v1/tasks/t9/stop')).status).toBe(404);
    });

    it('the tool that runs is ended', async () => {
      const running = Promise.withResolvers<AbortSignal>();
      const write = changeTool('write');
      const hanging = {
        ...write,
        apply: (_: unknown, signal: AbortSignal) => {
          running.resolve(signal);
          return new Promise<never>((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason as Error));
          });
        },
      };
      const grants = { tools: ['write'], auto_approve: ['write'] };
      const world = await start([{ calls: [{ name: 'write' }] }], {
        tools: [hanging],
        agents: [{ name: 'writer', instructions: 'Write.', grants }],
      });
      const response = await world.post({ prompt: 'Go.', agent: 'writer' });
      const signal = await running.promise;
      expect(await stopped(world)).toMatchObject([200, { stopped: true }]);
      expect(signal.aborted).toBe(true);
      expect((await linesOf(response)).at(-1)).toMatchObject({ type: 'aborted', reason: 'cancelled' });
    });

    it('a task whose session is revoked ends at once', async () => {
      const { post, tasks } = await start([{ hang: true }]);
      const response = await post({ prompt: 'Go.' });
      await tasks.stopRevoked('sother');
      await tasks.stopRevoked('shere-1');
      expect((await linesOf(response)).at(-1)).toMatchObject({
        reason: 'cancelled',
        message: 'Its session was revoked.',
      });
    });
  });

  it('ends a task whose session was revoked', async () => {
    const { post, revoked, get } = await start([{ calls: [{ name: 'look' }] }]);
    revoked.add('shere-1');
    const lines = await linesOf(await post({ prompt: 'Go.', agent: 'eyes' }));
    expect(lines.at(-1)).toMatchObject({ type: 'aborted', reason: 'error' });
    expect(await get('/agent/v1/tasks/t1')).toMatchObject({
      ok: false,
      state: 'failed',
      outcome: 'error',
      last_event: expect.stringMatching(/^failed: .+/) as string,
    });
  });

  it('ends streams with the final event when the host stops, and refuses new tasks', async () => {
    const { post, tasks, stopping, store, closed } = await start([{ hang: true }]);
    const response = await post({ prompt: 'Go.' });
    stopping.abort(new Error('stopping'));
    await tasks.stop();
    const lines = await linesOf(response);
    expect(lines.at(-1)).toMatchObject({ type: 'aborted', reason: 'shutdown' });
    expectWhole(lines);
    expect((await rows(store)).receipts).toMatchObject([{ outcome: 'failed', close_reason: 'shutdown' }]);
    expect(closed).toEqual(['shere-1']);
    await expect(tasks.create({ prompt: 'Go.', agent: 'default' })).rejects.toMatchObject({
      code: 'shutting_down',
    });
  });

  it('runs at most 32 tasks at once', async () => {
    const { post, tasks } = await start([{ hang: true }]);
    const all = await Promise.all(Array.from({ length: 33 }, () => post({ prompt: 'Go.' })));
    expect(all.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      ...Array.from({ length: 32 }, () => 200),
      429,
    ]);
    await until(async () => (await tasks.live()).every(({ last_event }) => last_event === 'turn 1'));
    const live = await tasks.live();
    expect(live.map(({ id }) => Number(id.slice(1)))).toEqual(Array.from({ length: 32 }, (_, i) => 32 - i));
    expect(live[0]).toMatchObject({
      kind: 'task',
      state: 'running',
      last_event: 'turn 1',
      cancellable: false,
    });
    await tasks.stop();
    for (const response of all) await response.body?.cancel();
  });

  it('ends orphaned tasks of its previous process at the start, and only its own', async () => {
    const database = await url();
    const gateway = await scriptedOpenAi([{ hang: true }]);
    open.push(() => gateway.close());
    const options = { gateway: gateway.url, tools: [look], agents: [eyes] };
    const dead = await openTaskWorld(database, options);
    const other = await openTaskWorld(database, { ...options, endpointId: 'there' });
    open.push(async () => {
      await other.tasks.stop();
      await other.store.close();
    });
    await dead.store.transaction((tx) =>
      tx
        .insertInto('tasks')
        .values({ ...orphan, id: 't90', n: 90, endpoint_id: 'here' })
        .execute(),
    );
    await dead.store.transaction((tx) =>
      tx
        .insertInto('tasks')
        .values({ ...orphan, id: 't91', n: 91, endpoint_id: 'there' })
        .execute(),
    );
    for (const [seq, event] of [{ type: 'start' }, { type: 'turn', n: 1 }].entries())
      await dead.store.transaction((tx) => dead.log.insert(tx, 't90', seq, event));
    await dead.store.close();

    const reborn = await openTaskWorld(database, options);
    open.push(() => reborn.store.close());
    expect(await reborn.tasks.recover()).toBe(1);
    expect(await reborn.tasks.recover()).toBe(0);
    const server = await serve(reborn.routes);
    const lines = await linesOf(await server.send('GET', '/agent/v1/tasks/t90/events'));
    expect(lines.map(({ seq, type }) => [seq, type])).toEqual([
      [0, 'start'],
      [1, 'turn'],
      [2, 'aborted'],
    ]);
    expect(lines[2]).toMatchObject({ reason: 'error' });
    expect((await rows(reborn.store)).receipts).toMatchObject([{ id: 't90', outcome: 'failed' }]);
    expect(reborn.closed).toEqual(['s90']);
    expect((await rows(reborn.store)).tasks.map(({ id, state }) => `${id} ${state}`).toSorted()).toEqual([
      't90 failed',
      't91 running',
    ]);
  });

  it('starts even if the end of orphaned tasks cannot be stored, and stores it later', async () => {
    let refusals = 1;
    const receipts = {
      add: () =>
        --refusals >= 0
          ? Promise.reject(new StoreError('storage_full', 'full'))
          : Promise.resolve({} as never),
    };
    const world = await openTaskWorld(await url(), { receipts });
    open.push(() => world.store.close());
    await world.store.transaction((tx) =>
      tx
        .insertInto('tasks')
        .values({ ...orphan, id: 't90', n: 90, endpoint_id: 'here' })
        .execute(),
    );
    expect(await world.tasks.recover()).toBe(0);
    expect((await rows(world.store)).tasks).toMatchObject([{ state: 'running' }]);
    expect(await world.tasks.recover()).toBe(1);
    expect((await rows(world.store)).tasks).toMatchObject([{ state: 'failed' }]);
  });

  it('stores the end when the database accepts it again', async () => {
    let refusals = 3;
    const receipts = {
      add: () =>
        --refusals >= 0
          ? Promise.reject(new StoreError('storage_full', 'full'))
          : Promise.resolve({} as never),
    };
    const { post, faults } = await start([{ text: 'late' }], { receipts });
    const lines = await linesOf(await post({ prompt: 'Go.' }));
    expect(lines.at(-1)).toMatchObject({ type: 'answer', text: 'late' });
    expectWhole(lines);
    expect(faults).toMatchObject([{ error: { code: 'storage_full' } }]);
  });

  it('ends once, even if the commit of the end was not confirmed', async () => {
    let added = 0;
    const receipts = { add: () => Promise.resolve((added += 1) as never) };
    const { post, store, get } = await start([{ text: 'late' }, { text: 'next' }], { receipts });
    const real = store.transaction.bind(store);
    let lost = 0;
    store.transaction = async (work) => {
      const value = await real(work);
      if (added === 0 || lost > 0) return value;
      lost += 1;
      throw new StoreError('storage_unsure', 'the connection was lost while it was saving');
    };
    const lines = await linesOf(await post({ prompt: 'Go.' }));
    expect(lost).toBe(1);
    expectWhole(lines);
    expect(lines.filter(({ type }) => type === 'answer')).toHaveLength(1);
    expect(await get('/agent/v1/tasks/t1')).toMatchObject({ state: 'completed', answer: 'late' });
    expect(added).toBe(1);
    expect((await linesOf(await post({ prompt: 'Go.' }))).at(-1)).toMatchObject({ text: 'next' });
  });
});

describe('tasks of a gateway', () => {
  const end = async (script: OpenAiScript, key = 'sk-very-secret') => {
    const gateway = await scriptedOpenAi(script);
    open.push(() => gateway.close());
    const world = await openTaskWorld(freshSqlite(), {
      gateway: gateway.url,
      key,
      agents: [eyes],
      tools: [look],
    });
    open.push(() => world.store.close());
    const server = await serve(world.routes);
    const response = await server.send('POST', '/agent/v1/tasks', { prompt: 'Go.', agent: 'eyes' });
    const lines = await linesOf(response);
    expectWhole(lines);
    expect(JSON.stringify([lines, world.faults])).not.toContain(key);
    return { end: lines.at(-1), lines, gateway };
  };

  it.each([
    [401, 'refused the key'],
    [403, 'refused the key'],
    [402, 'requires payment'],
    [404, "has no model 'scripted'"],
    [400, 'failed (400). It says: your key (key) is odd'],
    [500, 'failed (500)'],
  ])('reports the meaning of status %d, never with the key', async (status, message) => {
    const error = { message: 'your key sk-very-secret is odd' };
    const { end: last } = await end([{ status, error }]);
    expect(last).toMatchObject({ type: 'aborted', reason: 'error' });
    expect(last).toHaveProperty('message', expect.stringContaining(message));
  });

  it.each([429, 502, 503, 529])('retries after status %d', async (status) => {
    const { end: last, gateway } = await end([{ status }, { text: 'now' }]);
    expect(last).toMatchObject({ type: 'answer', text: 'now' });
    expect(gateway.requests).toHaveLength(2);
  });

  it('reports interrupted streams, and errors within a stream', async () => {
    const broken = await end([{ text: 'a long answer that is not finished', breakAfter: 1 }]);
    expect(broken.end).toMatchObject({
      type: 'aborted',
      message: 'The gateway did not complete its answer.',
    });
    const error = await end([{ text: 'so', streamError: { message: 'no more sk-very-secret' } }]);
    expect(error.end).toHaveProperty('message', 'The gateway failed (500). It says: no more (key)');
    const empty = await end([{ raw: { contentType: 'text/event-stream', body: 'data: [DONE]\n\n' } }]);
    expect(empty.end).toMatchObject({ type: 'aborted', message: 'The gateway did not complete its answer.' });
  });

  it('reports an unreachable gateway', async () => {
    const gateway = await scriptedOpenAi([]);
    await gateway.close();
    const world = await openTaskWorld(freshSqlite(), { gateway: gateway.url });
    open.push(() => world.store.close());
    const server = await serve(world.routes);
    const lines = await linesOf(await server.send('POST', '/agent/v1/tasks', { prompt: 'Go.' }));
    expect(lines.at(-1)).toHaveProperty('message', expect.stringContaining('cannot be reached'));
  });

  it('shortens the conversation when the gateway reports that it is too long', async () => {
    const error = { message: "This model's maximum context length is 10 tokens", code: null };
    const { end: last } = await end((_, index) =>
      index === 0 ? { calls: [{ name: 'look' }] } : { status: 400, error },
    );
    expect(last).toHaveProperty('message', expect.stringContaining('does not fit the context'));
  });

  it.each([
    { type: 'invalid_request_error', param: 'max_tokens', code: 'unsupported_parameter' },
    // As some that pass it on shorten it.
    { code: 'invalid_request_body' },
  ])('sends the token limit under the name that the model accepts (%o)', async (more) => {
    const message =
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    const { end: last, gateway } = await end(({ body }, index) => {
      if (body.max_tokens !== undefined) return { status: 400, error: { message, ...more } };
      return index === 1 ? { calls: [{ name: 'look' }] } : { text: 'a cat' };
    });
    expect(last).toMatchObject({ type: 'answer', text: 'a cat' });
    const [first, ...others] = gateway.requests.map(({ body }) => body);
    expect(first).not.toHaveProperty('max_completion_tokens');
    // It is called once a task, not once a turn.
    expect(others).toHaveLength(2);
    for (const body of others) expect(body).not.toHaveProperty('max_tokens');
    const { max_tokens: limit, ...same } = first ?? { max_tokens: 0 };
    expect(others[0]).toEqual({ ...same, max_completion_tokens: limit });
  });

  it('asks for fewer tokens where a refusal names its limit, and once under its other name', async () => {
    const message = 'max_tokens is too large: 32000. This model supports at most 4096 completion tokens.';
    const refusal = { status: 400, error: { message, param: 'max_tokens', code: 'invalid_value' } };
    const small = await end([refusal, { text: 'Said.' }]);
    expect(small.end).toMatchObject({ type: 'answer', text: 'Said.' });
    expect(small.gateway.requests.map(({ body }) => body.max_tokens)).toEqual([16_384, 4096]);
    const large = await end([refusal]);
    expect(large.end).toHaveProperty('message', `The gateway failed (400). It says: ${message}`);
    expect(large.gateway.requests).toHaveLength(2);
    const never = await end([{ status: 400, error: { message: 'No max_completion_tokens either.' } }]);
    expect(never.end).toHaveProperty('message', expect.stringContaining('failed (400)'));
    expect(never.gateway.requests).toHaveLength(2);
  });

  it('reads a server without streaming, call indices and argument texts', async () => {
    const message = {
      content: 'Looking.',
      tool_calls: [
        { id: 'a', function: { name: 'look', arguments: { at: 1 } } },
        { id: 'b', function: { name: 'look', arguments: '{"at":2}' } },
      ],
    };
    const body = JSON.stringify({ choices: [{ message, finish_reason: 'tool_calls' }] });
    const { lines } = await end([
      { raw: { contentType: 'application/json', body } },
      { text: 'ok', usage: null },
    ]);
    const made = lines.flatMap((line) => (line.type === 'tool_call' ? [[line.call_id, line.arguments]] : []));
    expect(made).toEqual([
      ['a', { at: 1 }],
      ['b', { at: 2 }],
    ]);
    expect(lines.at(-1)).not.toHaveProperty('usage');
  });

  it('closes the connection to the gateway at the timeout of a task', async () => {
    const gateway = await scriptedOpenAi([{ text: 'x'.repeat(10_000), chunkMs: 20 }]);
    open.push(() => gateway.close());
    const world = await openTaskWorld(freshSqlite(), { gateway: gateway.url });
    open.push(() => world.store.close());
    const server = await serve(world.routes);
    const body = { prompt: 'Go.', limits: { timeout_secs: 3 } };
    const lines = await linesOf(await server.send('POST', '/agent/v1/tasks', body));
    expect(lines.at(-1)).toMatchObject({ type: 'aborted', reason: 'timeout' });
    await expect.poll(() => gateway.left).toBe(1);
  });

  it('refuses a task at once when its model is unavailable', async () => {
    const agents = [{ name: 'here', instructions: '', model: 'resident' }];
    const world = await openTaskWorld(freshSqlite(), { agents });
    open.push(() => world.store.close());
    const server = await serve(world.routes);
    const none = await server.send('POST', '/agent/v1/tasks', { prompt: 'Go.' });
    expect([none.status, await codeOf(none)]).toEqual([503, 'no_gateway']);
    const absent = await server.send('POST', '/agent/v1/tasks', { prompt: 'Go.', agent: 'here' });
    expect([absent.status, await codeOf(absent)]).toEqual([503, 'no_resident_model']);
    expect((await rows(world.store)).tasks).toEqual([]);
  });
});

const orphan = {
  agent: 'eyes',
  title: 'x',
  request: '{}',
  cwd: null,
  engine: 'gateway',
  model: 'scripted',
  state: 'running',
  outcome: null,
  started_at: '2026-01-01T00:00:00.000Z',
  ended_at: null,
  last_event: null,
  result: null,
  turns: 0,
  prompt_tokens: null,
  completion_tokens: null,
  idempotency_key: null,
  request_digest: null,
  session_id: 's90',
} as const;

async function linesOf(response: Response): Promise<TurnEvent[]> {
  const body = await response.text();
  return body
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as TurnEvent);
}

/** Every event fits its schema, and none is missing. */
function expectWhole(lines: readonly TurnEvent[]): void {
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
  for (const line of lines) expect(turnEvent.safeParse(line).error).toBeUndefined();
  expect(lines.filter(({ type }) => type === 'answer' || type === 'aborted')).toHaveLength(1);
}

const textOf = (lines: readonly TurnEvent[]): string =>
  lines.map((line) => (line.type === 'delta' ? line.text : '')).join('');

interface Refusal {
  readonly error: { readonly code: string; readonly violations?: readonly { readonly path: string }[] };
}
const codeOf = async (response: Response) => ((await response.json()) as Refusal).error.code;
const pathsOf = async (response: Response) =>
  ((await response.json()) as Refusal).error.violations?.map(({ path }) => path).toSorted();

async function rows(store: Awaited<ReturnType<typeof openTaskWorld>>['store']) {
  const [receipts, signals, tasks, acts] = await store.read((db) =>
    Promise.all([
      db.selectFrom('receipts').selectAll().orderBy('seq').execute(),
      db.selectFrom('signals').selectAll().orderBy('seq').execute(),
      db.selectFrom('tasks').selectAll().execute(),
      db.selectFrom('acts').selectAll().orderBy('seq').execute(),
    ]),
  );
  return {
    receipts: receipts.map(({ receipt }) => JSON.parse(receipt) as object),
    signals: signals.map(({ name, data }) => ({ name, data: JSON.parse(data) as object })),
    tasks,
    acts,
  };
}
