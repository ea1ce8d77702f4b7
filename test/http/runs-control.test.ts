/** Pause, resume and cancel of runs: applied or refused in every state. */
import { expect, it, vi } from 'vitest';
import { StoreError } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import {
  agents,
  PersistentWorld,
  runWorlds,
  ShiftedClock,
  step,
  summarizeEvents,
} from '../support/run-world.ts';

describeDatabases('control of runs', (url) => {
  const open = runWorlds();
  const world = async (more: { cancelledState?: boolean } = {}) => {
    const outside = new PersistentWorld();
    const clock = new ShiftedClock();
    return { outside, ...(await open(outside, { url: await url(), clock, ...more })) };
  };
  const three = agents + step('a', 'hold a') + step('b', 'hold b') + step('c', 'say c');

  it('pauses at the next step boundary, never within a step, and keeps the slot', async () => {
    const { outside, begin, json, code, becomes, turns } = await world();
    outside.define('three', three);
    const id = await begin('three');
    expect(await json('POST', `runs/${id}/pause`)).toEqual({ status: 202, body: { id, pause: 'requested' } });
    expect((await json('POST', `runs/${id}/pause`)).status).toBe(202);
    expect((await becomes(id, { state: 'running' })).state).toBe('running');
    outside.holds.release('a');
    expect(await becomes(id, { state: 'paused' })).toMatchObject({ last_event: 'paused', cancellable: true });
    expect(turns.requests).toHaveLength(1);
    expect(await code('POST', `runs/${id}/pause`)).toEqual([409, 'wrong_state']);
    expect(await code('POST', 'workflows/three/runs')).toEqual([409, 'run_in_flight']);
    expect(await code('POST', `runs/${id}/run-now`)).toEqual([409, 'wrong_state']);
    for (const body of [{ inputs: {} }, { inputs: { a: 1 } }])
      expect(await code('POST', `runs/${id}/resume`, body)).toEqual([409, 'wrong_state']);
    expect((await json('GET', `runs/${id}`)).body).toMatchObject({ state: 'paused' });
    expect(await json('POST', `runs/${id}/resume`)).toEqual({ status: 200, body: { id, resumed: true } });
    await becomes(id, { state: 'running', last_event: 'resumed' });
    outside.holds.release('b');
    await becomes(id, { state: 'completed' });
  });

  it('resumes by itself after 300 seconds', async () => {
    const { outside, begin, json, clock, becomes, detail } = await world();
    outside.define('three', three);
    const id = await begin('three');
    await json('POST', `runs/${id}/pause`);
    outside.holds.release('a');
    await becomes(id, { state: 'paused' });
    clock.jump(3_600_000);
    clock.pass(150_000);
    clock.jump(-7_200_000);
    clock.pass(90_000);
    expect((await detail(id)).state).toBe('paused');
    clock.pass(60_500);
    await becomes(id, { state: 'running', last_event: 'auto-resumed after 300s' });
    const { body } = await json('GET', 'acts');
    expect((body['acts'] as object[]).at(-1)).toMatchObject({ verb: 'run.resume', target: id, by: 'host' });
    outside.holds.release('b');
    await becomes(id, { state: 'completed', last_event: 'completed' });
  });

  it('cancels at the next step boundary, and the stream ends with it', async () => {
    const { outside, send, json, becomes, turns } = await world();
    outside.define('three', three);
    const stream = send('POST', '/agent/v1/workflows/three/runs');
    await expect.poll(() => turns.requests.length).toBe(1);
    const [first] = (await json('GET', 'workflows/runs')).body as unknown as { id: string }[];
    const id = first?.id ?? '';
    expect(await json('POST', `sessions/${id}/cancel`)).toEqual({
      status: 202,
      body: { id, cancel: 'requested' },
    });
    expect((await json('POST', `sessions/${id}/cancel`)).status).toBe(202);
    expect((await becomes(id, { state: 'running' })).state).toBe('running');
    outside.holds.release('a');
    const lines = (await (await stream).text()).trim().split('\n');
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ type: 'run_end', outcome: 'cancelled' });
    expect(
      lines.map((line) => (JSON.parse(line) as { type: string }).type).filter((one) => one === 'step_end'),
    ).toHaveLength(1);
    expect(await becomes(id, { state: 'cancelled' })).toMatchObject({
      outcome: 'cancelled',
      cancellable: false,
    });
    expect((await json('GET', `sessions/${id}/receipt`)).body).toMatchObject({ outcome: 'cancelled' });
    expect(turns.requests).toHaveLength(1);
    expect((await json('POST', `sessions/${id}/cancel`)).status).toBe(404);
    const { sessions } = (await json('GET', 'sessions')).body as {
      sessions: { id: string; state: string }[];
    };
    expect(sessions.find((row) => row.id === id)?.state).toBe('cancelled');
  });

  it('cancels even if the last step is running, or fails', async () => {
    const { outside, begin, json, becomes } = await world();
    for (const [name, prompt] of [
      ['last', 'hold x'],
      ['bad', 'hold x\nfail y'],
    ] as const) {
      outside.define(name, agents + step('a', prompt, 'retry = { attempts = 3, backoff_secs = 100 }'));
      const id = await begin(name);
      await json('POST', `sessions/${id}/cancel`);
      outside.holds.release('x');
      await becomes(id, { state: 'cancelled' });
    }
  });

  it('shows cancelled runs as failed when the host is configured so', async () => {
    const { outside, begin, json, becomes } = await world({ cancelledState: false });
    outside.define('three', three);
    const id = await begin('three');
    await json('POST', `sessions/${id}/cancel`);
    outside.holds.release('a');
    await becomes(id, { state: 'failed' });
    const { sessions } = (await json('GET', 'sessions')).body as {
      sessions: { id: string; state: string }[];
    };
    expect(sessions.find((row) => row.id === id)?.state).toBe('failed');
    expect((await json('GET', 'workflows/runs')).body).toMatchObject([{ id, state: 'failed' }]);
    const { body } = await json('POST', `runs/${id}/resume`);
    expect((body['error'] as { message: string }).message).toMatch(/ is failed; /);
  });

  it('retries a run that is shown as failed, and none that is shown as cancelled', async () => {
    for (const cancelledState of [false, true]) {
      const { outside, begin, json, becomes, detail, events } = await world({ cancelledState });
      outside.define('three', three);
      const id = await begin('three');
      await json('POST', `sessions/${id}/cancel`);
      outside.holds.release('a');
      await becomes(id, { state: cancelledState ? 'cancelled' : 'failed', last_event: 'cancelled' });
      expect((await events(id)).at(-1)).toMatchObject({ type: 'run_end', outcome: 'cancelled' });
      const body = { retried_from: id };
      if (cancelledState) {
        const refused = await json('POST', 'workflows/three/runs', body);
        expect([refused.status, (refused.body['error'] as { message: string }).message]).toEqual([
          409,
          expect.stringContaining(`retried_from failed verification: ${id} is cancelled;`),
        ]);
      } else expect((await detail(await begin('three', body))).retried_from).toBe(id);
    }
  });

  it('cancels a paused run, one that waits for its next attempt, and one that waits for a person, at once', async () => {
    const { outside, begin, json, becomes, asked, pending, events } = await world();
    outside.define('three', three);
    const paused = await begin('three');
    await json('POST', `runs/${paused}/pause`);
    outside.holds.release('a');
    await becomes(paused, { state: 'paused' });
    await json('POST', `sessions/${paused}/cancel`);
    await becomes(paused, { state: 'cancelled' });

    outside.define('again', agents + step('a', 'fail x', 'retry = { attempts = 2, backoff_secs = 3000 }'));
    const again = await begin('again');
    await becomes(again, {
      step_records: [expect.objectContaining({ error: expect.stringContaining('x') as string }) as never],
    });
    await json('POST', `sessions/${again}/cancel`);
    await becomes(again, { state: 'cancelled' });

    outside.define('asks', agents + step('a', 'say x', 'gate = { kind = "approval" }'));
    const asks = await begin('asks');
    await asked('approval_gate');
    await json('POST', `sessions/${asks}/cancel`);
    await becomes(asks, { state: 'cancelled' });
    expect(summarizeEvents(await events(asks)).slice(-2)).toEqual([
      'step_end a cancelled',
      'run_end cancelled',
    ]);

    outside.define('stages', agents + step('a', 'stage'));
    const stages = await begin('stages');
    await asked('count');
    await becomes(stages, { waiting_on: 'approval' });
    await json('POST', `sessions/${stages}/cancel`);
    await becomes(stages, { state: 'cancelled' });
    expect(outside.tool.applied).toBe(0);
    await expect.poll(pending).toEqual([]);
  });

  it('cancels a suspended run at once, in a segment of its own', async () => {
    const { outside, run, json, becomes, events, code } = await world();
    outside.define('gate', agents + step('a', 'say x', 'gate = { kind = "time", after_secs = 1000 }'));
    const { id } = await run('gate');
    expect((await json('POST', `sessions/${id}/cancel`)).status).toBe(202);
    await becomes(id, { state: 'cancelled' });
    expect(summarizeEvents(await events(id)).slice(-3)).toEqual([
      'run_end suspended',
      'run_start',
      'run_end cancelled',
    ]);
    expect(await code('POST', `runs/${id}/resume`)).toEqual([409, 'wrong_state']);
    expect(await code('POST', `runs/${id}/pause`)).toEqual([404, 'run_not_live']);
    const { sessions } = (await json('GET', 'sessions')).body as {
      sessions: { id: string; state: string }[];
    };
    expect(sessions.filter((row) => row.id === id)).toMatchObject([{ state: 'cancelled' }]);
  });

  it('names the change to discard when a run that cannot be cancelled waits for an approval', async () => {
    const { outside, run, json, becomes } = await world();
    const entry = '[entry]\nkind = "armed"\n';
    outside.define('asks', `${entry}[[steps]]\nid = "a"\ngate = { kind = "approval" }\n`);
    const { id } = await run('asks');
    await json('POST', `runs/${id}/run-now`);
    await becomes(id, { state: 'running', waiting_on: 'approval' });
    const refused = await json('POST', `sessions/${id}/cancel`);
    expect(JSON.stringify(refused.body)).toMatch(/POST \/agent\/v1\/pending\/p\d+\/discard ends it/);
  });

  it('does not cancel a segment that was dispatched from a gate, but pauses it', async () => {
    const { outside, run, json, code, becomes } = await world();
    outside.define('armed', `[entry]\nkind = "armed"\n${agents}${step('a', 'hold a')}${step('b', 'say b')}`);
    const { id } = await run('armed');
    await json('POST', `runs/${id}/run-now`);
    await becomes(id, { state: 'running', cancellable: false });
    expect(await code('POST', `sessions/${id}/cancel`)).toEqual([409, 'not_cancellable']);
    expect((await json('POST', `runs/${id}/pause`)).status).toBe(202);
    outside.holds.release('a');
    await becomes(id, { state: 'paused', cancellable: false });
    const refused = await json('POST', `sessions/${id}/cancel`);
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([
      409,
      expect.stringContaining(`resume it (POST /agent/v1/runs/${id}/resume)`),
    ]);
    await json('POST', `runs/${id}/resume`);
    await becomes(id, { state: 'suspended', cancellable: true });
  });

  it('pauses after a gate when the pause was requested during a decision or a suspension', async () => {
    const { outside, begin, json, becomes, asked, turns } = await world();
    outside.define('asks', agents + step('a', 'say x', 'gate = { kind = "approval" }'));
    const id = await begin('asks');
    const question = await asked('approval_gate');
    await json('POST', `runs/${id}/pause`);
    await json('POST', `pending/${question}/approve`);
    await becomes(id, { state: 'paused' });
    expect(turns.requests).toHaveLength(0);
    await json('POST', `runs/${id}/resume`);
    await becomes(id, { state: 'completed' });
  });

  it('refuses verbs that do not fit the state, and names the state', async () => {
    const { outside, run, begin, json, code, becomes } = await world();
    outside.define('done', agents + step('a', 'say x'));
    const { id } = await run('done');
    const refusal = await json('POST', `runs/${id}/resume`);
    expect(refusal.status).toBe(409);
    expect((refusal.body['error'] as { message: string }).message).toContain('completed');
    expect(await code('POST', `runs/${id}/pause`)).toEqual([404, 'run_not_live']);
    expect(await code('POST', `sessions/${id}/cancel`)).toEqual([404, 'run_not_live']);
    for (const unknown of ['r1', 'r99999999999999999999', 'nothing']) {
      expect(await code('POST', `runs/${unknown}/resume`)).toEqual([404, 'run_not_found']);
      expect(await code('POST', `runs/${unknown}/run-now`)).toEqual([404, 'run_not_found']);
    }
    expect(await code('POST', 'runs/r1/pause')).toEqual([404, 'run_not_found']);
    expect(await code('POST', 'sessions/r1/cancel')).toEqual([404, 'run_not_found']);
    for (const other of ['t1', 'x17000000000000000000abcdef12'])
      expect(await code('POST', `runs/${other}/pause`)).toEqual([409, 'not_a_run']);
    outside.define('long', agents + step('a', 'hold x'));
    const long = await begin('long');
    const running = await json('POST', `runs/${long}/resume`);
    expect([running.status, (running.body['error'] as { message: string }).message]).toEqual([
      409,
      expect.stringContaining('running'),
    ]);
    for (const body of ['{', [], { inputs: 4 }])
      expect((await json('POST', `runs/${long}/resume`, body)).status).toBe(400);
    await json('POST', `sessions/${long}/cancel`);
    expect(await code('POST', `runs/${long}/pause`)).toEqual([409, 'wrong_state']);
    outside.holds.release('x');
    await becomes(long, { state: 'cancelled' });
  });

  it('journals every act with actor, verb and run', async () => {
    const { outside, begin, json, becomes } = await world();
    outside.define('three', three);
    const id = await begin('three');
    await json('POST', `runs/${id}/pause`);
    outside.holds.release('a');
    await becomes(id, { state: 'paused' });
    await json('POST', `runs/${id}/resume`);
    await json('POST', `sessions/${id}/cancel`);
    outside.holds.release('b');
    await becomes(id, { state: 'cancelled' });
    const acts = (await json('GET', 'acts')).body['acts'] as { verb: string; target: string; by: string }[];
    expect(acts.filter(({ target }) => target === id).map(({ verb, by }) => `${verb} ${by}`)).toEqual([
      'run.start local',
      'run.pause local',
      'run.resume local',
      'run.cancel local',
    ]);
  });

  it('fails a run whose events could not be stored, when the database works again', async () => {
    const { outside, begin, store, becomes, run, turns } = await world();
    outside.define('three', three);
    const id = await begin('three');
    await expect.poll(() => turns.requests.length).toBe(1);
    const full = new StoreError('storage_full', 'the disk of the database is full');
    const refusing = vi.spyOn(store, 'transaction').mockRejectedValue(full);
    outside.holds.release('a');
    await expect.poll(() => refusing.mock.calls.length).toBeGreaterThan(4);
    expect((await becomes(id, { state: 'running' })).state).toBe('running');
    refusing.mockRestore();
    await becomes(id, { state: 'failed', last_event: expect.stringContaining('disk') });
    outside.define('one', agents + step('a', 'say x'));
    expect((await run('one')).events.at(-1)).toMatchObject({ outcome: 'completed' });
  });

  it.each([
    ['would complete', step('a', 'hold x')],
    ['would suspend', step('a', 'hold x') + step('b', 'say x', 'gate = { kind = "input" }')],
    ['would end a cycle', `${step('a', 'hold x')}[entry]\nkind = "armed"\n`],
  ])('cancels a run that %s, even before the segment is notified', async (_, steps) => {
    const { outside, begin, run, json, becomes, store, turns } = await world();
    outside.define('race', agents + steps);
    const id = steps.includes('armed') ? (await run('race')).id : await begin('race');
    if (steps.includes('armed')) await json('POST', `runs/${id}/run-now`);
    await expect.poll(() => turns.requests.length).toBe(1);
    await store.transaction((tx) =>
      tx.updateTable('runs').set({ requested: 'cancel' }).where('id', '=', id).execute(),
    );
    outside.holds.release('x');
    await becomes(id, { state: 'cancelled' });
  });
});
