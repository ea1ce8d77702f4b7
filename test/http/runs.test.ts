/** Workflow runs over HTTP: start, steps, results and events. */
import { expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { agents, eventsOf, PersistentWorld, runWorlds, step, summarizeEvents } from '../support/run-world.ts';

describeDatabases('runs over HTTP', (url) => {
  const open = runWorlds();
  const world = async () => {
    const outside = new PersistentWorld();
    return { outside, ...(await open(outside, { url: await url() })) };
  };

  it('runs steps in the order of their needs, with earlier outputs in their prompts', async () => {
    const { outside, run, detail, turns } = await world();
    const inputs = '[inputs.who]\ntype = "string"\ndefault = "you"\n';
    const second = step('second', 'say {{steps.first.output}} and {{inputs.who}}', 'needs = ["first"]');
    outside.define('two', inputs + agents + second + step('first', 'say {{input}}'));
    const { response, events, id } = await run('two', { input: 'hello', ignored: 1 });
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    expect(response.headers.get('x-svc-session')).toMatch(/^s[0-9a-f]{8}-\d+$/);
    expect(response.headers.get('x-svc-session-secret')?.length).toBeGreaterThan(40);
    expect(summarizeEvents(events)).toEqual([
      'run_start',
      'step_start first',
      'first: turn',
      'first: delta',
      'first: answer',
      'step_end first completed',
      'step_start second',
      'second: turn',
      'second: delta',
      'second: answer',
      'step_end second completed',
      'run_end completed',
    ]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index));
    const inner = events.flatMap((event) => (event.type === 'step_event' ? [event.event.seq] : []));
    expect(inner).toEqual([0, 1, 2, 0, 1, 2]);
    expect(events.at(-1)).toMatchObject({ result: 'hello and you' });
    expect(id).toMatch(/^r\d{19}$/);
    expect(turns.requests[0]).toMatchObject({
      onStaged: 'wait',
      owner: { runId: id, step: 'first', sessionId: response.headers.get('x-svc-session') },
      limits: { timeout_secs: 600 },
    });
    expect(await detail(id)).toMatchObject({
      id,
      workflow: 'two',
      state: 'completed',
      outcome: 'completed',
      cancellable: false,
      result: 'hello and you',
      inputs: { who: 'you' },
      route: { engine: 'resident', model: 'resident' },
      tokens: { prompt: 4, completion: 2 },
      step_records: [
        { id: 'first', state: 'completed', attempts: 1, output: 'hello' },
        { id: 'second', state: 'completed', attempts: 1, output: 'hello and you' },
      ],
    });
  });

  it('skips steps by condition or when all of their needs were skipped, and continues with the others', async () => {
    const { outside, run, detail } = await world();
    outside.define(
      'choice',
      '[inputs.go]\ntype = "boolean"\ndefault = false\n' +
        agents +
        step('a', 'say a', 'when = "inputs.go"') +
        step('b', 'say b', 'when = "!inputs.go"') +
        step('after_a', 'say x', 'needs = ["a"]') +
        step('join', 'say [{{steps.a.output}}][{{steps.b.output}}]', 'needs = ["a", "b"]') +
        step('never', 'say never', 'when = "steps.join.state == \'skipped\'"\nneeds = ["join"]'),
    );
    const { events, id } = await run('choice');
    expect(summarizeEvents(events).filter((one) => one.startsWith('step_end'))).toEqual([
      'step_end a skipped',
      'step_end b completed',
      'step_end after_a skipped',
      'step_end join completed',
      'step_end never skipped',
    ]);
    // Without [output], of the last step that ran.
    expect((await detail(id)).result).toBe('[][b]');
    expect((await detail(id)).step_records[0]).toMatchObject({ id: 'a', state: 'skipped', attempts: 0 });
  });

  it('returns the output of the step that [output] names, and none if it was skipped', async () => {
    const { outside, run } = await world();
    outside.define('named', `${agents}${step('a', 'say a')}${step('b', 'say b')}[output]\nfrom = "a"\n`);
    expect((await run('named')).events.at(-1)).toMatchObject({ outcome: 'completed', result: 'a' });
    outside.define(
      'none',
      `${agents}${step('a', 'say a', 'when = "false"')}${step('b', 'say b')}[output]\nfrom = "a"`,
    );
    expect((await run('none')).events.at(-1)).not.toHaveProperty('result');
  });

  it('retries a step up to its limit, and then fails the run', async () => {
    const { outside, run, detail } = await world();
    const retry = 'retry = { attempts = 3, backoff_secs = 0 }';
    outside.define('flaky', agents + step('a', 'fail 2 times\nsay well', retry));
    const good = await run('flaky');
    expect(summarizeEvents(good.events).filter((one) => /^(?:step_|run_)/.test(one))).toEqual([
      'run_start',
      'step_start a',
      'step_start a',
      'step_start a',
      'step_end a completed',
      'run_end completed',
    ]);
    expect(good.events.filter(({ type }) => type === 'step_start')).toMatchObject([
      { attempt: 1 },
      { attempt: 2 },
      { attempt: 3 },
    ]);
    expect((await detail(good.id)).tokens).toEqual({ prompt: 6, completion: 3 });
    outside.define('broken', agents + step('a', 'fail badly', retry) + step('b', 'say b'));
    const bad = await run('broken');
    expect(bad.events.at(-1)).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('badly') as string,
    });
    const failedRun = await detail(bad.id);
    expect(failedRun).toMatchObject({
      state: 'failed',
      step_records: [{ id: 'a', state: 'failed', attempts: 3 }],
    });
    expect(failedRun.last_event).toMatch(/^failed: The step 'a' failed: .*badly/);
    expect(failedRun).not.toHaveProperty('result');
  });

  it('limits each attempt by the shortest timeout', async () => {
    const { outside, run, turns } = await world();
    const slow = '[agents.b]\ninstructions = "x"\nlimits = { timeout_secs = 5 }\n';
    const b = (id: string, more: string) => step(id, 'say x', more).replace('agent = "a"', 'agent = "b"');
    outside.define(
      'times',
      `${agents}${slow}${step('a', 'say a', 'timeout_secs = 7')}${b('b', '')}${b('c', 'timeout_secs = 2')}`,
    );
    await run('times');
    expect(turns.requests.map(({ limits }) => limits?.timeout_secs)).toEqual([7, 5, 2]);
  });

  it('has the JSON that fits output_schema as the output of a step, and fails otherwise', async () => {
    const { outside, run } = await world();
    const schema =
      'output_schema = { type = "object", required = ["n"], properties = { n = { type = "integer" } } }';
    outside.define(
      'json',
      `${agents}${step('a', 'say {"n":3}', schema)}${step('b', 'say {{steps.a.output.n}}', 'needs = ["a"]')}`,
    );
    expect((await run('json')).events.at(-1)).toMatchObject({ result: '3' });
    for (const stepPrompt of ['say {"n":"3"}', 'say no JSON']) {
      outside.define('bad', agents + step('a', stepPrompt, schema));
      expect((await run('bad')).events.at(-1)).toMatchObject({ outcome: 'failed' });
    }
  });

  it('fails a step with an unknown agent, an unresolved template or an internal error', async () => {
    const { outside, run, faults } = await world();
    const cases = {
      stranger: step('a', 'say x').replace('agent = "a"', 'agent = "nobody"'),
      empty: `${step('a', 'say {"n":1}', 'output_schema = { type = "object" }')}${step('b', 'say {{steps.a.output.m}}', 'needs = ["a"]')}`,
      bug: step('a', 'throw'),
      condition: `${step('a', 'say {"n":1}', 'output_schema = { type = "object" }')}${step('b', 'say x', 'needs = ["a"]\nwhen = "steps.a.output.m > 1"')}`,
    };
    for (const [name, steps] of Object.entries(cases)) {
      outside.define(name, agents + steps);
      const { events } = await run(name);
      expect(events.at(-1), name).toMatchObject({
        type: 'run_end',
        outcome: 'failed',
        error: expect.any(String) as string,
      });
    }
    // The slot is free after each, and only the bug is one.
    expect(faults).toHaveLength(1);
  });

  it('works in the folder that its workspace input names', async () => {
    const { outside, run, turns } = await world();
    const inline =
      '[agents.a]\ninstructions = "x"\ngrants = { read = ["."], write = ["./out"], tools = ["fs_read"] }\n';
    outside.define(
      'space',
      `[workspace]\ninput = "dir"\n[inputs.dir]\ntype = "string"\nrequired = true\n${inline}${step('a', 'say x')}`,
    );
    await run('space', { inputs: { dir: '/tmp/here/' } });
    expect(turns.requests[0]).toMatchObject({
      cwd: '/tmp/here',
      agent: { grants: { read: ['/tmp/here'], write: ['/tmp/here/out'] } },
    });
  });

  it('refuses invalid inputs with all violations at once, and starts nothing', async () => {
    const { outside, json, run } = await world();
    outside.define(
      'typed',
      '[inputs.n]\ntype = "integer"\nrequired = true\n[inputs.color]\ntype = "string"\nenum = ["red", "blue"]\n[inputs.list]\ntype = "array"\n' +
        agents +
        step('a', 'say {{inputs.n}}{{inputs.color}}'),
    );
    const { status, body } = await json('POST', 'workflows/typed/runs', {
      inputs: { color: 'green', list: 'x' },
    });
    expect(status).toBe(400);
    const { code, violations } = body['error'] as { code: string; violations: { path: string }[] };
    expect(code).toBe('invalid_inputs');
    expect(violations.map(({ path }) => path).sort()).toEqual(['inputs.color', 'inputs.list', 'inputs.n']);
    for (const wrong of [[], 'text', { input: 5 }, { inputs: [] }, { retried_from: 7 }])
      expect((await json('POST', 'workflows/typed/runs', wrong)).status).toBe(400);
    expect((await json('POST', 'workflows/typed/runs', '{"inputs":')).status).toBe(400);
    expect((await json('GET', 'workflows/runs')).body).toEqual([]);
    expect((await run('typed', { inputs: { n: 4 } })).events.at(-1)).toMatchObject({ result: '4' });
  });

  it('answers every name that may not be run with the same bytes, whatever the body', async () => {
    const { outside, send } = await world();
    outside.define('hidden', agents + step('a', 'say x'));
    outside.enabled.delete('hidden');
    const answers: string[] = [];
    for (const name of ['hidden', 'unknown', 'Not%20a%20name', 'x'.repeat(300)])
      for (const body of [undefined, {}, '{"inputs":', [], { inputs: 4 }, { retried_from: 'r1' }]) {
        const response = await send('POST', `/agent/v1/workflows/${name}/runs`, body);
        const headers = [...response.headers].filter(
          ([key]) => !/^(?:x-request-id|request-id|date)$/.test(key),
        );
        answers.push(JSON.stringify([response.status, headers, await response.text()]));
      }
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('404');
    expect(answers[0]).not.toContain('hidden');
    const other = await send('POST', '/agent/v1/workflows/unknown/runs', 'x', {
      'content-type': 'text/html',
    });
    expect(other.status).toBe(404);
  });

  it('runs one at a time, and names the run in flight', async () => {
    const { outside, json, begin, becomes } = await world();
    outside.define('long', agents + step('a', 'hold x'));
    const id = await begin('long');
    const { status, body } = await json('POST', 'workflows/long/runs');
    expect([status, (body['error'] as { code: string }).code]).toEqual([409, 'run_in_flight']);
    expect((body['error'] as { message: string }).message).toContain(id);
    outside.holds.release('x');
    await becomes(id, { state: 'completed' });
    const again = await begin('long');
    outside.holds.release('x');
    await becomes(again, { state: 'completed' });
  });

  it('retries only failed runs, records it in the journal, and does not change the old run', async () => {
    const { outside, json, run, code, detail } = await world();
    outside.define('works', agents + step('a', 'say x'));
    outside.define('fails', agents + step('a', 'fail x'));
    const good = await run('works');
    const bad = await run('fails');
    const before = await detail(bad.id);
    for (const retried_from of [good.id, 'r1', 't1', 'nonsense', ''])
      expect(await code('POST', 'workflows/fails/runs', { retried_from })).toEqual([
        409,
        'invalid_retried_from',
      ]);
    outside.define('other', agents + step('a', 'say x'));
    const { status, body: refused } = await json('POST', 'workflows/other/runs', { retried_from: bad.id });
    expect([status, (refused['error'] as { message: string }).message]).toEqual([
      409,
      expect.stringContaining(`${bad.id} is a run of the workflow 'fails', not of 'other'`),
    ]);
    // The source as it is now.
    outside.define('fails', agents + step('a', 'say mended'));
    const again = await run('fails', { retried_from: bad.id });
    expect(again.events.at(-1)).toMatchObject({ outcome: 'completed', result: 'mended' });
    expect(await detail(again.id)).toMatchObject({ retried_from: bad.id, state: 'completed' });
    expect(await detail(bad.id)).toEqual(before);
    const { body } = await json('GET', 'acts');
    expect((body['acts'] as { verb: string }[]).map(({ verb }) => verb)).toContain('run.retry');
  });

  it('keeps the source that it started with, even if the workflow is replaced or deleted', async () => {
    const { outside, begin, becomes } = await world();
    outside.define('moving', agents + step('a', 'hold x') + step('b', 'say old'));
    const id = await begin('moving');
    outside.define('moving', agents + step('a', 'hold x') + step('b', 'say new'));
    outside.sources.delete('moving');
    outside.holds.release('x');
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: 'old' });
  });

  it('continues when the client disconnects, and replays its stream from any event', async () => {
    const { outside, begin, events, send, code } = await world();
    outside.define('long', agents + step('a', 'hold x'));
    const id = await begin('long');
    const rest = send('GET', `/agent/v1/runs/${id}/events?after=0`);
    outside.holds.release('x');
    const live = eventsOf(await (await rest).text());
    expect(summarizeEvents(live).at(-1)).toBe('run_end completed');
    const all = await events(id);
    expect(all.slice(1)).toEqual(live);
    expect(await events(id, 2)).toEqual(all.slice(3));
    expect(await events(id, 999)).toEqual([]);
    expect(await code('GET', `runs/${id}/events?after=x`)).toEqual([400, 'invalid_value']);
    expect(await code('GET', 'runs/r1/events')).toEqual([404, 'run_not_found']);
  });

  it('lists the journal newest first, up to the limit', async () => {
    const { outside, json, run, code } = await world();
    outside.define('one', agents + step('a', 'say x'));
    const ids = [(await run('one')).id, (await run('one')).id, (await run('one')).id];
    expect([...ids].sort()).toEqual(ids);
    const list = async (query: string) =>
      ((await json('GET', `workflows/runs${query}`)).body as unknown as { id: string }[]).map(({ id }) => id);
    expect(await list('')).toEqual(ids.toReversed());
    expect(await list('?limit=2')).toEqual(ids.toReversed().slice(0, 2));
    for (const limit of ['0', '1001', 'x', '-1'])
      expect(await code('GET', `workflows/runs?limit=${limit}`)).toEqual([400, 'invalid_value']);
  });

  it('points from a task id to the tasks', async () => {
    const { json } = await world();
    const { status, body } = await json('GET', 'runs/t12');
    expect(status).toBe(404);
    expect((body['error'] as { message: string }).message).toContain('GET /agent/v1/tasks/t12');
    expect((await json('GET', 'runs/r99')).status).toBe(404);
  });

  it("ends with a receipt, a signal, a closed session and a row in the feed's history", async () => {
    const { outside, json, run, store } = await world();
    outside.define('one', agents + step('a', 'say x'));
    const { id, response } = await run('one');
    const receipt = (await json('GET', `sessions/${id}/receipt`)).body;
    expect(receipt).toMatchObject({
      id,
      kind: 'run',
      outcome: 'completed',
      workflow: 'one',
      tokens: { prompt: 2, completion: 1 },
    });
    const signals = await store.read((db) => db.selectFrom('signals').select(['name', 'data']).execute());
    const about = { id, workflow: 'one' };
    expect(signals).toEqual([
      { name: 'run.started', data: JSON.stringify(about) },
      { name: 'run.step_ended', data: JSON.stringify({ ...about, step: 'a', outcome: 'completed' }) },
      { name: 'run.completed', data: JSON.stringify({ id, workflow: 'one', outcome: 'completed' }) },
    ]);
    const session = await store.read((db) =>
      db.selectFrom('store_sessions').selectAll().executeTakeFirstOrThrow(),
    );
    expect(session).toMatchObject({ id: response.headers.get('x-svc-session'), kind: 'run', subject: id });
    expect(session.closed_at).not.toBeNull();
    const { sessions } = (await json('GET', 'sessions')).body as { sessions: Record<string, unknown>[] };
    expect(sessions.find((row) => row['id'] === id)).toMatchObject({
      kind: 'run',
      state: 'completed',
      cancellable: false,
    });
  });

  it('counts what it served', async () => {
    const { outside, run, runs } = await world();
    outside.define('one', agents + step('a', 'say x'));
    await run('one');
    await run('one');
    expect(runs.served).toBe(2);
  });

  it('runs the current version of a stored agent', async () => {
    const { outside, run, turns, store } = await world();
    outside.define('stored', step('a', 'say x').replace('agent = "a"', 'agent = "helper"'));
    const spec = {
      name: 'helper',
      instructions: 'help',
      model: 'resident',
      grants: { tools: ['x'], read: [], write: [], network: [], auto_approve: [] },
    };
    const at = store.time();
    await store.transaction((tx) =>
      tx
        .insertInto('agents')
        .values({ name: 'helper', spec: JSON.stringify(spec), created_at: at, updated_at: at })
        .execute(),
    );
    await run('stored');
    expect(turns.requests[0]?.agent).toMatchObject({ name: 'helper', instructions: 'help' });
  });
});
