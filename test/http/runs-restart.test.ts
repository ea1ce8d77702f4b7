/** Recovery of runs after a stop or kill of the host, by the next start on the same database. */
import { expect, it } from 'vitest';
import { StoreError } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import {
  agents,
  PersistentWorld,
  type RunHost,
  runWorlds,
  ShiftedClock,
  step,
  summarizeEvents,
} from '../support/run-world.ts';

describeDatabases('runs over restarts', (url) => {
  const open = runWorlds();
  const world = async () => {
    const outside = new PersistentWorld();
    const setting = { url: await url(), clock: new ShiftedClock() };
    const host = await open(outside, setting);
    return { outside, setting, host, next: () => open(outside, setting) };
  };
  const holding = (prompt: string) =>
    agents + step('a', 'say a') + step('b', prompt) + step('c', 'say {{steps.b.output}}', 'needs = ["b"]');
  const working = (host: RunHost, count: number) => expect.poll(() => host.turns.requests.length).toBe(count);
  const wellNumbered = async (host: RunHost, id: string) => {
    const all = await host.events(id);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, at) => at));
    return summarizeEvents(all);
  };
  const endings = ['kill', 'stop'] as const;

  it.each(endings)('reruns a step without side effects by itself (%s)', async (ending) => {
    const { outside, host, next } = await world();
    outside.define('plain', holding('hold x'));
    const id = await host.begin('plain');
    await working(host, 2);
    await host[ending]();
    const after = await next();
    await after.becomes(id, { state: 'running', last_event: "continues with 'b' after a restart" });
    outside.holds.release('x');
    expect(await after.becomes(id, { state: 'completed' })).toMatchObject({
      result: 'x',
      last_event: 'completed',
      step_records: [{ attempts: 1 }, { id: 'b', attempts: 2, state: 'completed' }, { attempts: 1 }],
    });
    const lines = await wellNumbered(after, id);
    expect(lines.filter((line) => line.startsWith('run_'))).toEqual(['run_start', 'run_end completed']);
    expect(lines.filter((line) => line === 'step_start b')).toHaveLength(2);
    expect(lines.filter((line) => line === 'step_start a')).toHaveLength(1);
    // It has the slot again from the start, and frees it.
    outside.define('other', agents + step('a', 'say x'));
    expect((await after.run('other')).response.status).toBe(200);
  });

  it.each(endings)(
    'pauses for approval when the step may have had effects; approved, it runs again (%s)',
    async (ending) => {
      const { outside, host, next } = await world();
      outside.define('effects', holding('effect\nhold x'));
      const id = await host.begin('effects');
      await working(host, 2);
      await host.becomes(id, { state: 'running' });
      await expect
        .poll(() =>
          host.store.read((db) =>
            db.selectFrom('run_steps').select('side_effects').where('step', '=', 'b').executeTakeFirst(),
          ),
        )
        .toEqual({ side_effects: 1 });
      await host[ending]();
      const after = await next();
      expect(await after.becomes(id, { state: 'suspended' })).toMatchObject({
        waiting_on: 'approval',
        suspend_kind: 'crash',
        step_records: [{ state: 'completed' }, { id: 'b', state: 'interrupted' }],
      });
      expect(await after.code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
      expect(after.turns.requests).toHaveLength(0);
      // The slot is free meanwhile.
      outside.define('other', agents + step('a', 'say x'));
      expect((await after.run('other')).events.at(-1)).toMatchObject({ outcome: 'completed' });
      const question = await after.asked('rerun_step');
      // And it still asks after another restart, once.
      await after.kill();
      const third = await next();
      expect((await third.pending()).map((one) => one.id)).toEqual([question]);
      await third.json('POST', `pending/${question}/approve`);
      outside.holds.release('x');
      await third.becomes(id, { state: 'completed' });
      expect((await wellNumbered(third, id)).filter((line) => line.startsWith('run_'))).toEqual([
        'run_start',
        'run_end suspended',
        'run_start',
        'run_end completed',
      ]);
    },
  );

  it('fails a run when a person refuses to rerun its interrupted step', async () => {
    const { outside, host, next } = await world();
    outside.define('effects', holding('effect\nhold x'));
    const id = await host.begin('effects');
    await working(host, 2);
    await expect
      .poll(() =>
        host.store.read((db) =>
          db.selectFrom('run_steps').select('side_effects').where('step', '=', 'b').executeTakeFirst(),
        ),
      )
      .toEqual({ side_effects: 1 });
    await host.kill();
    const after = await next();
    await after.json('POST', `pending/${await after.asked('rerun_step')}/discard`);
    expect(await after.becomes(id, { state: 'failed' })).toMatchObject({
      step_records: [{}, { id: 'b', state: 'failed' }],
    });
    expect(after.turns.requests).toHaveLength(0);
    expect((await wellNumbered(after, id)).slice(-3)).toEqual([
      'run_start',
      'step_end b failed',
      'run_end failed',
    ]);
    expect((await after.json('GET', `sessions/${id}/receipt`)).body).toMatchObject({ outcome: 'failed' });
  });

  it('withdraws changes that a killed step had staged', async () => {
    const { outside, host, next } = await world();
    outside.define('stages', agents + step('a', 'stage'));
    const id = await host.begin('stages');
    const staged = await host.asked('count');
    await host.becomes(id, { waiting_on: 'approval' });
    await host.kill();
    const after = await next();
    await after.becomes(id, { state: 'suspended', suspend_kind: 'crash' });
    expect(await after.code('POST', `pending/${staged}/approve`)).toEqual([409, expect.any(String)]);
    expect(outside.tool.applied).toBe(0);
    await after.json('POST', `pending/${await after.asked('rerun_step')}/approve`);
    await after.json('POST', `pending/${await after.asked('count')}/approve`);
    await after.becomes(id, { state: 'completed' });
    expect(outside.tool.applied).toBe(1);
  });

  it.each(endings)('stays paused, and its 300 seconds start again (%s)', async (ending) => {
    const { outside, host, next, setting } = await world();
    outside.define('plain', holding('say b'));
    outside.define('plain', agents + step('a', 'hold a') + step('b', 'say b'));
    const id = await host.begin('plain');
    await host.json('POST', `runs/${id}/pause`);
    outside.holds.release('a');
    await host.becomes(id, { state: 'paused' });
    setting.clock.pass(200_000);
    await host[ending]();
    const after = await next();
    setting.clock.pass(200_000);
    expect((await after.becomes(id, { state: 'paused' })).state).toBe('paused');
    expect(await after.code('POST', 'workflows/plain/runs')).toEqual([409, 'run_in_flight']);
    setting.clock.pass(301_000);
    await after.becomes(id, { state: 'completed', last_event: 'completed' });
    expect((await wellNumbered(after, id)).filter((line) => line === 'run_start')).toHaveLength(1);
  });

  it('applies requested pauses and cancellations', async () => {
    for (const verb of ['pause', 'cancel'] as const) {
      const { outside, host, next } = await world();
      outside.define('plain', holding('hold x'));
      const id = await host.begin('plain');
      await working(host, 2);
      const path = verb === 'pause' ? `runs/${id}/pause` : `sessions/${id}/cancel`;
      expect((await host.json('POST', path)).status).toBe(202);
      await host.kill();
      const after = await next();
      await after.becomes(id, { state: verb === 'pause' ? 'paused' : 'cancelled' });
      if (verb === 'pause') await after.json('POST', `runs/${id}/resume`);
      outside.holds.release('x');
      await after.becomes(id, { state: verb === 'pause' ? 'completed' : 'cancelled' });
      await wellNumbered(after, id);
    }
  });

  it('cancels instead of asking whether to rerun', async () => {
    const { outside, host, next } = await world();
    outside.define('effects', holding('effect\nhold x'));
    const id = await host.begin('effects');
    await working(host, 2);
    await host.json('POST', `sessions/${id}/cancel`);
    await host.kill();
    const after = await next();
    await after.becomes(id, { state: 'cancelled' });
    expect(await after.pending()).toEqual([]);
  });

  it.each(endings)(
    'asks the same question on, and does not ask again what was decided (%s)',
    async (ending) => {
      const { outside, host, next } = await world();
      outside.define(
        'asks',
        agents + step('a', 'say a') + step('b', 'say b', 'gate = { kind = "approval" }'),
      );
      const id = await host.begin('asks');
      const question = await host.asked('approval_gate');
      await host.becomes(id, { waiting_on: 'approval' });
      await host[ending]();
      const after = await next();
      expect(await after.becomes(id, { state: 'running', waiting_on: 'approval' })).toMatchObject({
        gate: { pending_id: question },
      });
      expect((await after.pending()).map((one) => one.id)).toEqual([question]);
      await after.kill();
      const third = await next();
      await third.json('POST', `pending/${question}/approve`);
      await third.becomes(id, { state: 'completed' });
      expect((await wellNumbered(third, id)).filter((line) => line === 'step_waiting b')).toHaveLength(1);
    },
  );

  it('keeps input gates, their forms and step outputs over a restart', async () => {
    const { outside, host, next } = await world();
    const gate =
      'gate = { kind = "input", schema = { required = ["n"], properties = { n = { type = "integer" } } } }\nneeds = ["a"]';
    outside.define(
      'form',
      agents + step('a', 'say a') + step('b', 'say {{gate.n}}{{steps.a.output}}{{input}}', gate),
    );
    const { id } = await host.run('form', { input: 'i' });
    outside.sources.clear();
    await host.kill();
    const after = await next();
    expect((await after.json('POST', `runs/${id}/resume`, { inputs: { n: 'x' } })).status).toBe(400);
    expect((await after.json('POST', `runs/${id}/resume`, { inputs: { n: 5 } })).status).toBe(200);
    await after.becomes(id, { state: 'completed', result: '5ai' });
  });

  it.each([
    ['time', '{ kind = "time", after_secs = 3600 }'],
    ['event', '{ kind = "event", name = "user.go" }'],
    ['value', '{ kind = "value", poll_secs = 1, expr = "now > timestamp(\'2100-01-01T00:00:00Z\')" }'],
  ])('opens a gate that was due while no host ran: %s', async (kind, gate) => {
    const { outside, host, next, setting } = await world();
    outside.define('gated', agents + step('a', 'say x', `gate = ${gate}`));
    const { id } = await host.run('gated');
    if (kind === 'event') await host.json('POST', 'events', { name: 'user.other' });
    await host.kill();
    const after = await next();
    expect((await after.becomes(id, { state: 'suspended' })).state).toBe('suspended');
    await after.stop();
    if (kind === 'time') setting.clock.jump(3_700_000);
    if (kind === 'value') setting.clock.jump(100 * 366 * 24 * 3_600_000);
    const third = await next();
    if (kind === 'event') await third.json('POST', 'events', { name: 'user.go' });
    await third.becomes(id, { state: 'completed' });
  });

  it('fires once for firings that were missed while no host ran', async () => {
    const { outside, host, next, setting } = await world();
    outside.define(
      'nightly',
      `[entry]\nkind = "schedule"\ncron = "0 3 * * *"\n${agents}${step('a', 'say x')}`,
    );
    const { id } = await host.run('nightly');
    await host.kill();
    setting.clock.jump(5 * 24 * 3_600_000);
    const after = await next();
    await after.becomes(id, { state: 'suspended', wrapper_cycle: 1 });
    const { gate } = await after.detail(id);
    const due = Date.parse((gate as { until_at: string }).until_at);
    expect(due).toBeGreaterThan(setting.clock.now().getTime());
    expect(due - setting.clock.now().getTime()).toBeLessThanOrEqual(24 * 3_600_000);
    expect((await after.detail(id)).wrapper_cycle).toBe(1);
  });

  it('continues within a cycle', async () => {
    const { outside, host, next } = await world();
    outside.define('armed', `[entry]\nkind = "armed"\n${holding('hold x')}`);
    const { id } = await host.run('armed');
    await host.json('POST', `runs/${id}/run-now`);
    await working(host, 2);
    await host.becomes(id, { state: 'running', last_event: 'cycle 1 began' });
    await host.kill();
    const after = await next();
    await after.becomes(id, { state: 'running', cancellable: false, wrapper_cycle: 1 });
    outside.holds.release('x');
    await after.becomes(id, { state: 'suspended', waiting_on: 'armed', last_event: 'cycle 1 completed' });
    await after.json('POST', `runs/${id}/run-now`);
    outside.holds.release('x');
    await after.becomes(id, { state: 'suspended', last_event: 'cycle 2 completed' });
  });

  it('leaves the runs of another host on the same database alone', async () => {
    const { outside, host, setting } = await world();
    outside.define('plain', holding('hold x'));
    outside.define('gate', agents + step('a', 'say x', 'gate = { kind = "input" }'));
    const suspended = await host.run('gate');
    const id = await host.begin('plain');
    const other = await open(outside, { ...setting, endpointId: 'host-b' });
    for (const path of [
      `runs/${id}/pause`,
      `sessions/${id}/cancel`,
      `runs/${suspended.id}/resume`,
      `sessions/${suspended.id}/cancel`,
    ])
      expect(await other.code('POST', path)).toEqual([409, 'other_host']);
    expect((await other.detail(id)).state).toBe('running');
    expect((await other.json('GET', 'sessions')).body).toMatchObject({ sessions: [{ kind: 'host' }] });
    // One run a host.
    outside.define('mine', agents + step('a', 'say mine'));
    expect((await other.run('mine')).events.at(-1)).toMatchObject({ outcome: 'completed' });
    // Its stream is read there too, to its end.
    const read = other.events(id);
    outside.holds.release('x');
    expect(summarizeEvents(await read).at(-1)).toBe('run_end completed');
  });

  it('generates increasing ids even if the clock went back', async () => {
    const { outside, host, next, setting } = await world();
    outside.define('one', agents + step('a', 'say x'));
    const first = await host.run('one');
    await host.kill();
    setting.clock.jump(-24 * 3_600_000);
    const after = await next();
    const second = await after.run('one');
    expect(BigInt(second.id.slice(1)) > BigInt(first.id.slice(1))).toBe(true);
  });

  it('withdraws questions of ended runs', async () => {
    const { outside, host, next } = await world();
    outside.define('one', agents + step('a', 'say x'));
    const { id } = await host.run('one');
    const about = { agent: 'a', runId: id, step: 'a', intent: 'x', summary: 'x' };
    await host.changes.ask({ tool: 'rerun_step', ...about });
    await host.kill();
    const after = await next();
    expect(await after.pending()).toEqual([]);
  });

  it.each(['ends', 'waits for its next cycle'])(
    'knows that a run %s though the connection was lost while that was saved',
    async (how) => {
      const { outside, host } = await world();
      const entry = how === 'ends' ? '' : '[entry]\nkind = "armed"\n';
      outside.define('plain', `${entry}${agents}${step('a', 'hold x')}`);
      const id = await host.begin('plain');
      if (entry !== '') {
        await host.becomes(id, { state: 'suspended' });
        await host.json('POST', `runs/${id}/run-now`);
      }
      await working(host, 1);
      const { store } = host;
      const real = store.transaction.bind(store);
      let lost = 0;
      store.transaction = async (work) => {
        const value = await real(work);
        const { state } = (await host.json('GET', `runs/${id}`)).body;
        if (state === 'running' || lost > 0) return value;
        lost += 1;
        throw new StoreError('storage_unsure', 'the connection was lost while it was saving');
      };
      outside.holds.release('x');
      await host.becomes(id, { state: entry === '' ? 'completed' : 'suspended' });
      await expect.poll(() => lost).toBe(1);
      store.transaction = real;
      await expect.poll(() => host.runs.served).toBe(1);
      // The slot is free again, and the stream continues at its position.
      if (entry === '') {
        outside.define('other', agents + step('a', 'say y'));
        expect((await host.run('other')).response.status).toBe(200);
      } else {
        expect((await host.json('POST', `runs/${id}/run-now`)).status).toBe(200);
        await working(host, 2);
        outside.holds.release('x');
        await host.becomes(id, { state: 'suspended', wrapper_cycle: 2 });
      }
      await wellNumbered(host, id);
      expect(host.faults).toEqual([]);
    },
  );
});
