/** Spans of tasks and runs: each once, from its start to its stored end. */
import { afterEach, describe, expect, it } from 'vitest';
import { StoreError } from '../../src/store/index.ts';
import { freshSqlite } from '../support/databases.ts';
import { agents, PersistentWorld, runWorlds, step } from '../support/run-world.ts';
import { type OpenAiScript, scriptedOpenAi } from '../support/scripted-openai.ts';
import { routeServers } from '../support/serve-routes.ts';
import { openTaskWorld } from '../support/task-world.ts';
import {
  toolCallAnswer,
  changeTool,
  okOutput,
  readTool,
  textAnswer,
  turnWorld,
} from '../support/turn-world.ts';
import { transcriptLines, createSpanRecorder } from '../support/span-recorder.ts';

const trace = (span: number) => `00-${'a'.repeat(32)}-${String(span).padStart(16, '0')}-01`;
const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

describe('spans of tasks', () => {
  const serve = routeServers();
  const look = readTool('look', () => okOutput('a cat'));
  const eyes = { name: 'eyes', instructions: 'Look.', grants: { tools: ['look', 'write'] } };
  type Options = Parameters<typeof openTaskWorld>[1];
  const start = async (
    script: OpenAiScript,
    options: Options = {},
    kept?: Parameters<typeof createSpanRecorder>[0],
  ) => {
    const gateway = await scriptedOpenAi(script);
    open.push(() => gateway.close());
    const seen = createSpanRecorder(kept);
    const world = await openTaskWorld(freshSqlite(), {
      gateway: gateway.url,
      tools: [look, changeTool('write')],
      agents: [eyes],
      tracer: seen.tracer,
      ...options,
    });
    open.push(async () => {
      await world.tasks.stop();
      await world.store.close();
    });
    const server = await serve(world.routes);
    const post = async (body: object, headers: Record<string, string> = {}) =>
      await (await server.send('POST', '/agent/v1/tasks', { agent: 'eyes', ...body }, headers)).text();
    return { ...server, ...seen, ...world, gateway, post };
  };

  it('contain turns and tool calls, in the trace of the client', async () => {
    const script = [{ reasoning: 'Hm.', calls: [{ name: 'look' }] }, { text: 'A cat.' }];
    const {
      post,
      spansOf: of,
      spanResults: endings,
      expectAllEnded: expectWhole,
      gateway,
    } = await start(script, {}, ['agent']);
    await post({ prompt: 'What is it?' }, { traceparent: trace(1) });
    const [task] = of('task');
    expect({ id: task?.id, trace: task?.traceparent, ...task?.attributes }).toEqual({
      id: 't1',
      trace: trace(1),
      agent: 'eyes',
      by: expect.stringMatching(/./),
      engine: 'gateway',
      model: 'scripted',
      turns: 2,
      promptTokens: 20,
      completionTokens: expect.any(Number),
    });
    expect([endings('task'), endings('turn'), endings('tool')]).toEqual([['ok'], ['ok', 'ok'], ['ok']]);
    expect([...of('turn'), ...of('tool')].map(({ id, parent }) => [id, parent])).toEqual([
      ['t1:1', task],
      ['t1:2', task],
      ['t1:call_0', task],
    ]);
    expect([...of('task'), ...of('turn'), ...of('tool')].map(transcriptLines)).toEqual([
      ['system: Look.', 'user: What is it?'],
      ['reasoning: Hm.'],
      ['assistant: A cat.'],
      ['tool_call look: {}', 'tool look: a cat'],
    ]);
    expect(gateway.requests.map(({ traceparent }) => traceparent)).toEqual([trace(1), trace(1)]);
    expectWhole();
  });

  it('ignore an invalid traceparent', async () => {
    const { post, spansOf: of, gateway, started: begun } = await start([{ text: 'ok' }]);
    for (const traceparent of ['', 'x', `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`, `${trace(1)}-x`])
      await post({ prompt: 'Go.' }, { traceparent });
    expect(of('task').map(({ traceparent }) => traceparent)).toEqual(Array(4).fill(undefined));
    expect(gateway.requests.map(({ traceparent }) => traceparent)).toEqual(Array(4).fill(undefined));
    expect(begun.every(({ transcript }) => transcript === undefined)).toBe(true);
  });

  it('exist once for repeated requests with one idempotency key', async () => {
    const { post, spansOf: of, expectAllEnded: expectWhole } = await start([{ text: 'ok' }]);
    await post({ prompt: 'Go.' }, { 'idempotency-key': 'k' });
    await post({ prompt: 'Go.' }, { 'idempotency-key': 'k' });
    expect(of('task')).toHaveLength(1);
    expectWhole();
  });

  it('do not exist for refused tasks', async () => {
    const { post, started: begun } = await start([{ text: 'ok' }]);
    await post({ prompt: 'Go.', agent: 'nobody' });
    await post({});
    expect(begun).toEqual([]);
  });

  it('have the reason of a task without an answer', async () => {
    const script = [
      { status: 400 },
      { calls: [{ name: 'look' }] },
      { calls: [{ name: 'look' }] },
      { hang: true },
    ];
    const { post, spanResults: endings, revoked, tasks, expectAllEnded: expectWhole } = await start(script);
    await post({ prompt: 'A model that fails.' });
    await post({ prompt: 'No turn is left.', limits: { max_turns: 1 } });
    revoked.add('shere-3');
    await post({ prompt: 'Its session is revoked.' });
    await post({ prompt: 'The time is up.', limits: { timeout_secs: 3 } });
    const hanging = post({ prompt: 'The host stops.' });
    await expect.poll(() => endings('turn').length).toBe(5);
    await tasks.stop();
    await hanging.catch(() => undefined);
    expect(endings('task')).toEqual([
      'failed error',
      'failed budget',
      'failed error',
      'failed timeout',
      'failed shutdown',
    ]);
    expect(endings('turn')).toEqual([
      'failed gateway_failed',
      'ok',
      'ok',
      'failed timeout',
      'failed shutdown',
    ]);
    expect(endings('tool')).toEqual(['ok', 'refused session_revoked']);
    expectWhole();
  });

  it('end when the end of the task is stored, and fail when it cannot be stored', async () => {
    let refusals = 3;
    let wait = Promise.withResolvers<void>();
    const receipts = {
      async add() {
        await wait.promise;
        refusals -= 1;
        if (refusals >= 0) throw new StoreError('storage_full', 'full');
        return {} as never;
      },
    };
    const { post, spanResults: endings, faults, ended } = await start([{ text: 'ok' }], { receipts });
    const answer = post({ prompt: 'Go.' });
    await expect.poll(() => ended.map(({ kind }) => kind)).toEqual(['turn']);
    wait.resolve();
    await answer;
    await expect.poll(() => endings('task')).toEqual(['ok']);
    expect(faults).toHaveLength(1);

    wait = Promise.withResolvers();
    wait.reject(new Error('a bug of ours'));
    wait.promise.catch(() => undefined);
    void post({ prompt: 'Go.' }).catch(() => undefined);
    await expect.poll(() => endings('task')).toEqual(['ok', 'failed internal_error']);
  });
});

describe('spans of runs', () => {
  const worlds = runWorlds();
  type Setting = Parameters<typeof worlds>[1];
  const world = async (more: Partial<Setting> = {}) => {
    const outside = new PersistentWorld();
    const seen = createSpanRecorder();
    const setting = { url: freshSqlite(), tracer: seen.tracer, ...more };
    const host = await worlds(outside, setting);
    return { ...seen, ...host, outside, next: () => worlds(outside, setting) };
  };

  it('contain steps, which contain turns and tool calls', async () => {
    const seen = createSpanRecorder(['workflows']);
    const loop = turnWorld({
      steps: [toolCallAnswer('look'), textAnswer('A cat.'), textAnswer('Done.')],
      tools: [readTool('look', () => okOutput('a cat'))],
      tracer: seen.tracer,
    });
    const { outside, send, becomes } = await world({ turns: () => loop.loop, tracer: seen.tracer });
    const looking = '[agents.a]\ninstructions = "x"\ngrants = { tools = ["look"] }\n';
    const skipped = step('never', 'No.', 'when = "false"');
    outside.define('two', looking + step('one', 'Look.') + step('two', 'End.', 'needs = ["one"]') + skipped);
    const response = await send('POST', '/agent/v1/workflows/two/runs', {}, { traceparent: trace(2) });
    const { run_id: id } = JSON.parse((await response.text()).split('\n')[0] ?? '') as { run_id: string };
    await becomes(id, { state: 'completed' });
    await expect.poll(() => seen.spanResults('run')).toEqual(['ok']);
    const [run] = seen.spansOf('run');
    const [one, two, ...others] = seen.spansOf('step');
    expect([run?.id, run?.attributes, run?.traceparent]).toEqual([id, { workflow: 'two' }, trace(2)]);
    expect([one, two].map((work) => [work?.id, work?.attributes, work?.parent, work?.traceparent])).toEqual([
      [`${id}:one`, { workflow: 'two', step: 'one', agent: 'a', attempts: 1 }, run, trace(2)],
      [`${id}:two`, { workflow: 'two', step: 'two', agent: 'a', attempts: 1 }, run, trace(2)],
    ]);
    expect(others).toEqual([]);
    expect([...seen.spansOf('turn'), ...seen.spansOf('tool')].map((work) => [work.id, work.parent])).toEqual([
      [`${id}:0:one:1:1`, one],
      [`${id}:0:one:1:2`, one],
      [`${id}:0:two:1:1`, two],
      [`${id}:0:one:1:call_1_1`, one],
    ]);
    expect(transcriptLines(one as never)).toEqual(['system: x', 'user: Look.']);
    expect(seen.spansOf('turn').map(transcriptLines)).toEqual([
      [],
      ['assistant: A cat.'],
      ['assistant: Done.'],
    ]);
    seen.expectAllEnded();
  });

  it('count the attempts of a step, each with unique ids', async () => {
    const {
      outside,
      run,
      spansOf: of,
      spanResults: endings,
      turns,
      expectAllEnded: expectWhole,
    } = await world();
    outside.define('again', agents + step('a', 'fail 1 times', 'retry = { attempts = 2, backoff_secs = 0 }'));
    const { id } = await run('again');
    await expect.poll(() => endings('run')).toEqual(['ok']);
    expect(endings('step')).toEqual(['ok']);
    expect(of('step')[0]?.attributes.attempts).toBe(2);
    expect(turns.requests.map(({ trace: within }) => within.idPrefix)).toEqual([
      `${id}:0:a:1`,
      `${id}:0:a:2`,
    ]);
    expectWhole();
  });

  it('have the code of every kind of failure', async () => {
    const { outside, run, spanResults: endings, faults, expectAllEnded: expectWhole } = await world();
    outside.define('fails', agents + step('a', 'fail x'));
    outside.define('bug', agents + step('a', 'throw'));
    const one = step('a', 'say {"n":1}', 'output_schema = { type = "object" }');
    const two = step('b', 'say x', 'needs = ["a"]\nwhen = "steps.a.output.m > 1"');
    outside.define('condition', agents + one + two);
    await run('fails');
    await run('bug');
    await run('condition');
    await expect
      .poll(() => endings('run'))
      .toEqual(['failed run_failed', 'failed run_failed', 'failed run_failed']);
    expect(endings('step')).toEqual(['failed step_failed', 'failed internal_error', 'ok']);
    expect(faults).toHaveLength(1);
    expectWhole();
  });

  it('are abandoned when cancelled, between steps and between attempts', async () => {
    const {
      outside,
      begin,
      json,
      becomes,
      spanResults: endings,
      expectAllEnded: expectWhole,
    } = await world();
    outside.define('two', agents + step('a', 'hold a') + step('b', 'say b'));
    const first = await begin('two');
    await json('POST', `sessions/${first}/cancel`);
    outside.holds.release('a');
    await becomes(first, { state: 'cancelled' });
    outside.define('again', agents + step('a', 'fail x', 'retry = { attempts = 2, backoff_secs = 3000 }'));
    const second = await begin('again');
    await becomes(second, {
      step_records: [expect.objectContaining({ error: expect.stringContaining('x') as string }) as never],
    });
    await json('POST', `sessions/${second}/cancel`);
    await becomes(second, { state: 'cancelled' });
    await expect.poll(() => endings('run')).toEqual(['abandoned cancelled', 'abandoned cancelled']);
    expect(endings('step')).toEqual(['ok', 'abandoned cancelled']);
    expectWhole();
  });

  it('exist per segment, to and from a gate, in the trace of the client that opened it', async () => {
    const {
      outside,
      run,
      send,
      becomes,
      spansOf: of,
      spanResults: endings,
      expectAllEnded: expectWhole,
    } = await world();
    const gate = 'gate = { kind = "input", schema = { type = "object" } }';
    outside.define('form', agents + step('a', 'say a') + step('b', 'say b', `needs = ["a"]\n${gate}`));
    const { id } = await run('form');
    await expect.poll(() => endings('run')).toEqual(['ok']);
    expect(endings('step')).toEqual(['ok']);
    await send('POST', `/agent/v1/runs/${id}/resume`, { inputs: {} }, { traceparent: trace(3) });
    await becomes(id, { state: 'completed' });
    await expect.poll(() => endings('run')).toEqual(['ok', 'ok']);
    expect(of('run').map((work) => [work.id, work.traceparent])).toEqual([
      [id, undefined],
      [id, trace(3)],
    ]);
    const [first, second] = of('run');
    expect(of('step').map(({ parent }) => parent)).toEqual([first, second]);
    expectWhole();
  });

  it('exist per cycle of a workflow with an entry, also for failed cycles', async () => {
    const {
      outside,
      run,
      send,
      becomes,
      turns,
      spansOf: of,
      spanResults: endings,
      expectAllEnded: expectWhole,
    } = await world();
    outside.define('armed', `[entry]\nkind = "armed"\n${agents}${step('a', 'fail 1 times')}`);
    const { id } = await run('armed');
    expect(of('run')).toEqual([]);
    for (const cycle of [1, 2]) {
      await send('POST', `/agent/v1/runs/${id}/run-now`, undefined, { traceparent: trace(cycle) });
      await expect.poll(() => endings('run')[cycle - 1]).toBeDefined();
      await becomes(id, { state: 'suspended' });
    }
    expect(endings('run')).toEqual(['failed run_failed', 'ok']);
    expect(of('run').map(({ traceparent }) => traceparent)).toEqual([trace(1), trace(2)]);
    expect(turns.requests.map(({ trace: within }) => within.idPrefix)).toEqual([
      `${id}:1:a:1`,
      `${id}:2:a:1`,
    ]);
    expectWhole();
  });

  it('end when the host stops, and start again on its next start', async () => {
    const {
      outside,
      begin,
      turns,
      stop,
      next,
      spansOf: of,
      spanResults: endings,
      expectAllEnded: expectWhole,
    } = await world();
    outside.define('plain', agents + step('a', 'hold x'));
    const id = await begin('plain');
    await expect.poll(() => turns.requests.length).toBe(1);
    await stop();
    expect([endings('run'), endings('step')]).toEqual([['failed shutdown'], ['failed shutdown']]);
    const after = await next();
    outside.holds.release('x');
    await after.becomes(id, { state: 'completed' });
    await expect.poll(() => endings('run')).toEqual(['failed shutdown', 'ok']);
    expect(of('step').map(({ attributes: facts }) => facts.attempts)).toEqual([1, 2]);
    expect([...turns.requests, ...after.turns.requests].map(({ trace: within }) => within.idPrefix)).toEqual([
      `${id}:0:a:1`,
      `${id}:0:a:2`,
    ]);
    expectWhole();
  });

  it('survive a database failure', async () => {
    const {
      outside,
      begin,
      store,
      becomes,
      turns,
      spanResults: endings,
      expectAllEnded: expectWhole,
    } = await world();
    outside.define('plain', agents + step('a', 'hold x'));
    const id = await begin('plain');
    await expect.poll(() => turns.requests.length).toBe(1);
    const real = store.transaction.bind(store);
    store.transaction = () => Promise.reject(new StoreError('storage_full', 'the disk is full'));
    outside.holds.release('x');
    await expect.poll(() => endings('step')).toEqual(['failed storage_full']);
    expect(endings('run')).toEqual([undefined]);
    store.transaction = real;
    await becomes(id, { state: 'failed' });
    await expect.poll(() => endings('run')).toEqual(['failed run_failed']);
    expectWhole();
  });
});
