/** Gates of every kind, and entry gates: where runs wait, and what opens the gates. */
import { expect, it, vi } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import {
  agents,
  PersistentWorld,
  runWorlds,
  ShiftedClock,
  step,
  summarizeEvents,
} from '../support/run-world.ts';

describeDatabases('gates of runs', (url) => {
  const open = runWorlds();
  const world = async () => {
    const outside = new PersistentWorld();
    const clock = new ShiftedClock();
    return { outside, ...(await open(outside, { url: await url(), clock })) };
  };
  const gated = (gate: string, prompt = 'say {{gate.size}}') =>
    `${agents}${step('before', 'say b')}${step('g', prompt, `needs = ["before"]\ngate = ${gate}`)}`;

  const form =
    '{ kind = "input", message = "How large, {{steps.before.output}}?", schema = { type = "object", required = ["size"], properties = { size = { type = "integer", minimum = 1 }, color = { type = "string", default = "red" } } } }';

  it('suspends at an input gate, refuses invalid inputs, and continues in a new segment', async () => {
    const { outside, run, json, becomes, detail, events, turns } = await world();
    outside.define('form', gated(form, 'say {{gate.size}} {{gate.color}}'));
    const first = await run('form');
    expect(summarizeEvents(first.events).slice(-2)).toEqual(['step_waiting g', 'run_end suspended']);
    expect(first.events.at(-1)).toMatchObject({ waiting_on: 'input' });
    const { id } = first;
    const suspended = await detail(id);
    expect(suspended).toMatchObject({
      state: 'suspended',
      waiting_on: 'input',
      suspend_kind: 'interior_gate',
      cancellable: true,
      gate: { step: 'g', kind: 'input', message: 'How large, b?', schema: { required: ['size'] } },
      step_records: [{ id: 'before' }, { id: 'g', state: 'waiting', attempts: 0 }],
    });
    for (const [body, paths] of [
      [undefined, ['inputs.size']],
      [{}, ['inputs.size']],
      [{ inputs: {} }, ['inputs.size']],
      [{ inputs: { size: 0, color: 5 } }, ['inputs.color', 'inputs.size']],
    ] as const) {
      const refused = await json('POST', `runs/${id}/resume`, body);
      expect(refused.status).toBe(400);
      const { violations } = refused.body['error'] as { violations: { path: string }[] };
      expect(violations.map(({ path }) => path).sort()).toEqual(paths);
      expect(await detail(id)).toEqual(suspended);
    }
    expect(await json('POST', `runs/${id}/resume`, { inputs: { size: 4 } })).toEqual({
      status: 200,
      body: { id, resumed: true },
    });
    expect(await becomes(id, { state: 'completed' })).toMatchObject({
      result: '4 red',
      last_event: 'completed',
    });
    const all = await events(id);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, at) => at));
    const second = all.slice(first.events.length);
    expect(summarizeEvents(second).filter((one) => /^(?:run|step)_/.test(one))).toEqual([
      'run_start',
      'step_start g',
      'step_end g completed',
      'run_end completed',
    ]);
    expect(turns.requests).toHaveLength(2);
  });

  it('applies the defaults of a form without inputs, and outputs the inputs of a step without agent', async () => {
    const { outside, run, json, becomes } = await world();
    const schema = 'schema = { properties = { n = { default = 7 } } }';
    outside.define('plain', `[[steps]]\nid = "g"\ngate = { kind = "input", ${schema} }\n`);
    const { id } = await run('plain');
    expect((await json('POST', `runs/${id}/resume`, { inputs: {} })).status).toBe(200);
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: { n: 7 } });
  });

  it('frees the slot while it is suspended, and refuses to resume while another run holds it', async () => {
    const { outside, run, begin, code, json, becomes } = await world();
    outside.define('form', gated(form));
    outside.define('long', agents + step('a', 'hold x'));
    const { id } = await run('form');
    const other = await begin('long');
    expect(await code('POST', `runs/${id}/resume`, { inputs: { size: 1 } })).toEqual([409, 'run_in_flight']);
    expect((await json('GET', `runs/${id}`)).body).toMatchObject({ state: 'suspended' });
    outside.holds.release('x');
    await becomes(other, { state: 'completed' });
    expect((await json('POST', `runs/${id}/resume`, { inputs: { size: 1 } })).status).toBe(200);
    await becomes(id, { state: 'completed' });
  });

  it('is resumed once by concurrent requests', async () => {
    const { outside, run, json, becomes, events } = await world();
    outside.define('form', gated(form));
    const { id } = await run('form');
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map((size) => json('POST', `runs/${id}/resume`, { inputs: { size } })),
    );
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 409, 409, 409, 409]);
    await becomes(id, { state: 'completed' });
    expect((await events(id)).filter(({ type }) => type === 'run_end')).toHaveLength(2);
  });

  it('opens a time gate at its time, and never before', async () => {
    const { outside, run, code, clock, becomes, detail } = await world();
    outside.define('later', gated('{ kind = "time", after_secs = 3600 }', 'say now'));
    const { id, events } = await run('later');
    expect(events.at(-1)).toMatchObject({ outcome: 'suspended', waiting_on: 'time' });
    const { gate } = await detail(id);
    const { since_at, until_at } = gate as { since_at: string; until_at: string };
    expect(Date.parse(until_at) - Date.parse(since_at)).toBe(3_600_000);
    for (const body of [undefined, { inputs: {} }])
      expect(await code('POST', `runs/${id}/resume`, body)).toEqual([409, 'wrong_state']);
    expect(await code('POST', `runs/${id}/run-now`)).toEqual([409, 'wrong_state']);
    clock.pass(3_599_000 - 60_000);
    expect((await detail(id)).state).toBe('suspended');
    clock.pass(61_000);
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: 'now' });
  });

  it('measures durations with the monotonic clock, and times with the wall clock', async () => {
    const { outside, run, clock, becomes, detail } = await world();
    outside.define('duration', gated('{ kind = "time", after_secs = 60 }', 'say now'));
    // A gate that begins to wait after the jump has only the wall clock to go by.
    const { monotonic } = clock;
    const { promise: waits, resolve } = Promise.withResolvers<void>();
    const read = vi.spyOn(clock, 'monotonic').mockImplementation(() => {
      if (new Error().stack?.includes('waitForTime') === true) resolve();
      return monotonic();
    });
    const { id } = await run('duration');
    await waits;
    read.mockRestore();
    clock.jump(-3_600_000);
    clock.pass(61_000);
    await becomes(id, { state: 'completed' });
    const until = new Date(clock.now().getTime() + 60_000).toISOString();
    outside.define('instant', gated(`{ kind = "time", until = "${until}" }`, 'say now'));
    const instant = await run('instant');
    clock.jump(-3_600_000);
    clock.pass(61_000);
    expect((await detail(instant.id)).state).toBe('suspended');
    clock.jump(3_600_000);
    await becomes(instant.id, { state: 'completed' });
  });

  it('passes gates whose time is over or whose condition holds without waiting', async () => {
    const { outside, run } = await world();
    outside.define('past', gated('{ kind = "time", until = "2020-01-01T00:00:00Z" }', 'say a'));
    outside.define('true', gated('{ kind = "value", expr = "steps.before.output == \'b\'" }', 'say a'));
    for (const name of ['past', 'true']) {
      const { events } = await run(name);
      expect(summarizeEvents(events).at(-1)).toBe('run_end completed');
      expect(summarizeEvents(events)).not.toContain('step_waiting g');
    }
  });

  it('opens a value gate as soon as its condition holds', async () => {
    const { outside, run, code, clock, becomes } = await world();
    const later = new Date(clock.now().getTime() + 3_600_000).toISOString();
    outside.define(
      'value',
      gated(`{ kind = "value", poll_secs = 1, expr = "now > timestamp('${later}')" }`, 'say a'),
    );
    const { id, events } = await run('value');
    expect(events.at(-1)).toMatchObject({ waiting_on: 'value' });
    expect(await code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
    clock.jump(3_700_000);
    await becomes(id, { state: 'completed' });
  });

  it('evaluates a value gate with the current state of the host at each poll', async () => {
    const { outside, run, becomes, detail } = await world();
    outside.host = { ...outside.host, tasks_running: 2 };
    const expr = "host.tasks_running == 0 && host.pending == 0 && host.model == 'a-model'";
    outside.define('quiet', gated(`{ kind = "value", poll_secs = 1, expr = "${expr}" }`, 'say a'));
    outside.define('busy', agents + step('only', 'say b', 'when = "host.external_sessions > 0"'));
    const { id, events } = await run('quiet');
    expect(events.at(-1)).toMatchObject({ outcome: 'suspended', waiting_on: 'value' });
    outside.host = { ...outside.host, tasks_running: 0, pending: 1 };
    expect(summarizeEvents((await run('busy')).events)).toContain('step_end only skipped');
    outside.host = { ...outside.host, external_sessions: 1 };
    expect(summarizeEvents((await run('busy')).events)).toContain('step_end only completed');
    expect((await detail(id)).state).toBe('suspended');
    outside.host = { ...outside.host, pending: 0 };
    await becomes(id, { state: 'completed' });
  });

  it('does not wait at the gate of a run that was cancelled on arrival', async () => {
    const { outside, begin, becomes, json, store } = await world();
    let asked = 0;
    const view = { ...outside.host };
    Object.defineProperty(outside, 'host', { get: () => ((asked += 1), view) });
    outside.define('never', gated('{ kind = "value", expr = "host.pending > 9" }', 'say a'));
    const real = store.transaction.bind(store);
    let cancelled = false;
    store.transaction = async (work) => {
      const value = await real(work);
      const suspended = await store.read((db) =>
        db.selectFrom('runs').select('id').where('state', '=', 'suspended').executeTakeFirst(),
      );
      if (suspended && !cancelled) {
        cancelled = true;
        expect((await json('POST', `sessions/${suspended.id}/cancel`)).status).toBe(202);
      }
      return value;
    };
    await becomes(await begin('never'), { state: 'cancelled' });
    await new Promise((resolve) => setTimeout(resolve, 100));
    // When it came to the gate, and not again.
    expect(asked).toBe(1);
  });

  it('fails at a gate whose condition cannot be evaluated', async () => {
    const { outside, run } = await world();
    outside.define(
      'odd',
      `${agents}${step('j', 'say {"n":1}', 'output_schema = { type = "object" }')}${step('g', 'say x', 'needs = ["j"]\ngate = { kind = "value", expr = "steps.j.output.m > 3" }')}`,
    );
    expect((await run('odd')).events.at(-1)).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('steps.j.output.m > 3') as string,
    });
  });

  it('opens an event gate with the first matching event after its start', async () => {
    const { outside, run, json, becomes, detail } = await world();
    expect((await json('POST', 'events', { name: 'user.deploy', data: { env: 'prod' } })).status).toBe(202);
    outside.define(
      'event',
      gated(`{ kind = "event", name = "user.deploy", where = "data.env == 'prod'" }`, 'say {{gate.data.by}}'),
    );
    const { id, events } = await run('event');
    expect(events.at(-1)).toMatchObject({ waiting_on: 'event' });
    const other = await json('POST', 'events', { name: 'user.other', data: { env: 'prod' } });
    const test = await json('POST', 'events', { name: 'user.deploy', data: { env: 'test' } });
    await json('POST', 'events', { name: 'user.deploy' });
    expect((test.body['seq'] as number) - (other.body['seq'] as number)).toBe(1);
    expect(test.body['name']).toBe('user.deploy');
    expect((await detail(id)).state).toBe('suspended');
    await json('POST', 'events', { name: 'user.deploy', data: { env: 'prod', by: 'ann' } });
    await json('POST', 'events', { name: 'user.deploy', data: { env: 'prod', by: 'bob' } });
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: 'ann' });
  });

  it('opens an event gate with signals of the host', async () => {
    const { outside, run, becomes } = await world();
    outside.define(
      'watcher',
      `[[steps]]\nid = "g"\ngate = { kind = "event", name = "run.failed", where = "data.workflow == 'bad'" }\n`,
    );
    outside.define('bad', agents + step('a', 'fail x'));
    const watcher = await run('watcher');
    const bad = await run('bad');
    expect(await becomes(watcher.id, { state: 'completed' })).toMatchObject({
      result: { name: 'run.failed', data: { id: bad.id } },
    });
  });

  it('accepts only user events, with an object as data', async () => {
    const { json } = await world();
    for (const body of [
      {},
      { name: 'run.failed' },
      { name: 'user.' },
      { name: 'user.a b' },
      { name: 'user.a', data: 3 },
      [],
    ])
      expect((await json('POST', 'events', body)).status).toBe(400);
  });

  it('keeps its segment while it waits for approval, lets other runs run, and continues when approved', async () => {
    const { outside, begin, asked, json, becomes, detail, events, code, pending } = await world();
    outside.define(
      'ask',
      gated('{ kind = "approval", message = "Ship {{steps.before.output}}?" }', 'say shipped'),
    );
    const id = await begin('ask');
    const question = await asked('approval_gate');
    expect(await becomes(id, { waiting_on: 'approval' })).toMatchObject({
      state: 'running',
      gate: { kind: 'approval', pending_id: question },
    });
    expect((await pending())[0]).toMatchObject({ run_id: id, step: 'g', intent: 'Ship b?' });
    expect(await code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
    // It goes on when the slot is free again.
    outside.define('long', agents + step('a', 'hold x'));
    const long = await begin('long');
    expect(await code('POST', 'workflows/ask/runs')).toEqual([409, 'run_in_flight']);
    expect((await json('POST', `pending/${question}/approve`)).status).toBe(200);
    expect(await detail(id)).toMatchObject({ state: 'running', waiting_on: 'approval' });
    outside.holds.release('x');
    await becomes(long, { state: 'completed' });
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: 'shipped' });
    const all = await events(id);
    expect(all.find(({ type }) => type === 'step_waiting')).toMatchObject({
      step: 'g',
      pending_id: question,
    });
    expect(all.filter(({ type }) => type === 'run_start')).toHaveLength(1);
  });

  it('fails when a person declines', async () => {
    const { outside, begin, asked, json, becomes, turns } = await world();
    outside.define('ask', gated('{ kind = "approval" }', 'say shipped'));
    const id = await begin('ask');
    await json('POST', `pending/${await asked('approval_gate')}/discard`, { note: 'a secret reason' });
    const detail = await becomes(id, { state: 'failed' });
    expect(JSON.stringify(detail)).not.toContain('secret');
    expect(turns.requests).toHaveLength(1);
  });

  it('reports that a step waits for a staged change, and does not count that time', async () => {
    const { outside, begin, asked, json, becomes, events } = await world();
    outside.define('stage', agents + step('a', 'stage'));
    const id = await begin('stage');
    const staged = await asked('count');
    await becomes(id, { state: 'running', waiting_on: 'approval' });
    outside.define('other', agents + step('a', 'say x'));
    await becomes(await begin('other'), { state: 'completed' });
    await json('POST', `pending/${staged}/approve`);
    expect(await becomes(id, { state: 'completed' })).toMatchObject({ result: 'applied' });
    expect(outside.tool.applied).toBe(1);
    expect(summarizeEvents(await events(id))).toEqual([
      'run_start',
      'step_start a',
      'a: turn',
      'a: staged',
      'step_waiting a',
      'a: tool_result',
      'a: delta',
      'a: answer',
      'step_end a completed',
      'run_end completed',
    ]);
  });

  it('queues runs whose gates open while the slot is taken', async () => {
    const { outside, run, begin, json, becomes, turns } = await world();
    const names = ['one', 'two', 'three'];
    for (const name of names)
      outside.define(name, gated('{ kind = "event", name = "user.go" }', `say ${name}`));
    outside.define('long', agents + step('a', 'hold x'));
    const ids = [(await run('one')).id, (await run('two')).id, (await run('three')).id];
    const long = await begin('long');
    await json('POST', 'events', { name: 'user.go' });
    expect((await becomes(long, { state: 'running' })).state).toBe('running');
    for (const id of ids) expect((await becomes(id, { state: 'suspended' })).state).toBe('suspended');
    outside.holds.release('x');
    for (const id of ids) await becomes(id, { state: 'completed' });
    expect(
      turns.requests
        .map(({ prompt }) => prompt)
        .slice(-3)
        .sort(),
    ).toEqual(['say one', 'say three', 'say two']);
  });

  it('runs a cycle of an armed workflow for every run-now', async () => {
    const { outside, run, json, code, becomes, events, detail } = await world();
    outside.define('armed', `[entry]\nkind = "armed"\n${agents}${step('a', 'say {{input}}')}`);
    const { id, events: first } = await run('armed', { input: 'hi' });
    expect(summarizeEvents(first)).toEqual(['run_start', 'run_end suspended']);
    expect(await detail(id)).toMatchObject({
      state: 'suspended',
      waiting_on: 'armed',
      suspend_kind: 'entry_gate',
      wrapper_cycle: 0,
    });
    expect(await code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
    for (const cycle of [1, 2]) {
      expect(await json('POST', `runs/${id}/run-now`)).toEqual({
        status: 200,
        body: { id, dispatched: true },
      });
      expect(await becomes(id, { state: 'suspended', wrapper_cycle: cycle })).toMatchObject({
        last_event: `cycle ${cycle} completed`,
      });
    }
    const all = await events(id);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, at) => at));
    expect(all.filter(({ type }) => type === 'run_end')).toMatchObject([
      { outcome: 'suspended' },
      { outcome: 'suspended', waiting_on: 'armed', result: 'hi' },
      { outcome: 'suspended', waiting_on: 'armed', result: 'hi' },
    ]);
    expect((await detail(id)).step_records).toMatchObject([
      { id: 'a', cycle: 1, state: 'completed' },
      { id: 'a', cycle: 2, state: 'completed' },
    ]);
    expect((await json('POST', `sessions/${id}/cancel`)).status).toBe(202);
    await becomes(id, { state: 'cancelled' });
    expect(await code('POST', `runs/${id}/run-now`)).toEqual([409, 'wrong_state']);
    expect(await code('POST', 'runs/r5/run-now')).toEqual([404, 'run_not_found']);
  });

  it('fires a schedule, by itself and by run-now, and continues after a failed cycle', async () => {
    const { outside, run, json, code, clock, becomes, detail } = await world();
    outside.define(
      'nightly',
      `[entry]\nkind = "schedule"\ncron = "0 3 * * *"\ntz = "Europe/Berlin"\n${agents}${step('a', 'fail 2 times\nsay fine')}`,
    );
    const { id } = await run('nightly');
    const { gate } = await detail(id);
    const { until_at } = gate as { until_at: string };
    expect(new Date(until_at).toLocaleTimeString('de', { timeZone: 'Europe/Berlin' })).toBe('03:00:00');
    expect(await code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
    clock.jump(Date.parse(until_at) - clock.now().getTime() + 1000);
    expect(await becomes(id, { state: 'suspended', wrapper_cycle: 1 })).toMatchObject({
      last_event: expect.stringMatching(/^cycle 1 failed: /) as string,
      step_records: [{ state: 'failed', cycle: 1 }],
    });
    // A small step back does not fire the same time again.
    clock.jump(-60_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    clock.jump(60_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await detail(id)).wrapper_cycle).toBe(1);
    const next = (await detail(id)).gate as { until_at: string };
    expect(Date.parse(next.until_at) - Date.parse(until_at)).toBeGreaterThan(82_000_000);
    await json('POST', `runs/${id}/run-now`);
    await becomes(id, { state: 'suspended', wrapper_cycle: 2 });
    clock.jump(3 * 24 * 3_600_000);
    // However many were missed, it is one.
    await becomes(id, { state: 'suspended', wrapper_cycle: 3, last_event: 'cycle 3 completed' });
    expect((await detail(id)).wrapper_cycle).toBe(3);
  });

  it('suspends within a cycle, where run-now is refused', async () => {
    const { outside, run, json, code, becomes } = await world();
    outside.define('both', `[entry]\nkind = "armed"\n${gated(form)}`);
    const { id } = await run('both');
    await json('POST', `runs/${id}/run-now`);
    await becomes(id, { state: 'suspended', waiting_on: 'input', wrapper_cycle: 1 });
    expect(await code('POST', `runs/${id}/run-now`)).toEqual([409, 'wrong_state']);
    await json('POST', `runs/${id}/resume`, { inputs: { size: 9 } });
    await becomes(id, { state: 'suspended', waiting_on: 'armed', last_event: 'cycle 1 completed' });
  });
});
