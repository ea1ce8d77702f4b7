import { AgentError } from '../../errors.ts';
import { fitSchema } from '../definition/json-schema.ts';
import { endSuspended } from './dispatch.ts';
import type { Opening } from './opening.ts';
import { withdrawAll } from './questions.ts';
import { isCancellable, shown } from './records.ts';
import { elsewhere, inFlight, noSuchRun, wrongState } from './refusals.ts';
import { changeRun, findRun, type RunRow } from './rows.ts';
import type { Runner } from './runner.ts';
import { readGate, type StoredGate } from './stored-gate.ts';
import type { RunWorld } from './world.ts';

type Inputs = Readonly<Record<string, unknown>>;

/** Control verbs of runs: pause, resume, run-now and cancel. Each is stored before it is answered. */
export class RunControl {
  readonly #world: RunWorld;
  readonly #runner: Runner;

  constructor(world: RunWorld, runner: Runner) {
    this.#world = world;
    this.#runner = runner;
  }

  async pause(id: string, by: string): Promise<{ id: string; pause: 'requested' }> {
    if (!id.startsWith('r')) throw notARun(id);
    const row = await this.#ours(id);
    if (row.ended_at !== null)
      throw new AgentError('not_found', 'run_not_live', `The run ${id} is ${shown(row.state, this.#world)}.`);
    const live = this.#runner.live(id);
    const { store } = this.#world;
    const asked =
      live !== undefined &&
      (await store.transaction(async (tx) => {
        const still = await tx
          .updateTable('runs')
          .set({ requested: 'pause' })
          .where('id', '=', id)
          .where('state', '=', 'running')
          .where('requested', 'is distinct from', 'cancel')
          .executeTakeFirst();
        if (still.numUpdatedRows === 0n) return false;
        await store.act(tx, { verb: 'run.pause', target: id, by, outcome: 'applied' });
        return true;
      }));
    if (!live || !asked) throw await this.#notPausable(id);
    live.orders.pause = true;
    live.orders.tell();
    return { id, pause: 'requested' };
  }

  async resume(
    id: string,
    inputs: Inputs | undefined,
    by: string,
    traceparent?: string,
  ): Promise<{ id: string; resumed: true }> {
    const row = await this.#ours(id);
    if (row.state === 'paused') await this.#unpause(row, inputs, by);
    else if (row.state === 'suspended') await this.#answerGate(row, inputs, by, traceparent);
    else
      throw wrongState(id, this.#stateOf(row), 'only a paused run, or one that waits for inputs, is resumed');
    return { id, resumed: true };
  }

  async runNow(id: string, by: string, traceparent?: string): Promise<{ id: string; dispatched: true }> {
    const row = await this.#ours(id);
    if (row.state !== 'suspended' || row.suspend_kind !== 'entry_gate')
      throw wrongState(
        id,
        this.#stateOf(row),
        'run-now is for one that waits at its entry, armed or scheduled',
      );
    await this.#goOn(row, { traceparent }, { verb: 'run.run_now', by });
    return { id, dispatched: true };
  }

  async cancel(id: string, by: string): Promise<{ id: string; cancel: 'requested' }> {
    const row = await this.#ours(id);
    if (row.ended_at !== null)
      throw new AgentError('not_found', 'run_not_live', `The run ${id} is ${shown(row.state, this.#world)}.`);
    const cancelled =
      row.state === 'suspended' ? await this.#endSuspended(id, by) : await this.#askToEnd(id, by);
    if (cancelled) return { id, cancel: 'requested' };
    // Its state has changed since it was read.
    const now = await this.#ours(id);
    if (now.state !== row.state || isCancellable(now)) return await this.cancel(id, by);
    throw notCancellable(now);
  }

  async #endSuspended(id: string, by: string): Promise<boolean> {
    const ended = await endSuspended(this.#world, id, { outcome: 'cancelled' }, by);
    if (!ended) return false;
    this.#runner.disarm(id);
    await withdrawAll(this.#world, { runId: id }, by, `the run ${id} was cancelled`);
    return true;
  }

  /** Requests cancellation at the next step boundary. */
  async #askToEnd(id: string, by: string): Promise<boolean> {
    const { store } = this.#world;
    const asked = await store.transaction(async (tx) => {
      const still = await tx
        .updateTable('runs')
        .set({ requested: 'cancel' })
        .where('id', '=', id)
        .where('state', 'in', ['running', 'paused'])
        .where('resumed', '=', 0)
        .executeTakeFirst();
      if (still.numUpdatedRows === 0n) return false;
      await store.act(tx, { verb: 'run.cancel', target: id, by, outcome: 'applied' });
      return true;
    });
    const live = this.#runner.live(id);
    if (!asked || !live) return asked;
    live.orders.cancel ??= by;
    live.orders.tell();
    return true;
  }

  async #unpause(row: RunRow, inputs: Inputs | undefined, by: string): Promise<void> {
    const { store } = this.#world;
    if (inputs !== undefined)
      throw wrongState(row.id, 'paused', 'a paused run takes no inputs: resume it without inputs');
    const resumed = await store.transaction(async (tx) => {
      const done = await changeRun(tx, row.id, ['paused'], { state: 'running', last_event: 'resumed' });
      if (done) await store.act(tx, { verb: 'run.resume', target: row.id, by, outcome: 'applied' });
      return done !== undefined;
    });
    if (!resumed)
      throw wrongState(row.id, this.#stateOf(await this.#ours(row.id)), 'only a paused run is resumed');
    this.#runner.live(row.id)?.resume();
  }

  async #answerGate(
    row: RunRow,
    inputs: Inputs | undefined,
    by: string,
    traceparent: string | undefined,
  ): Promise<void> {
    const gate = readGate(row.gate);
    if (gate?.kind !== 'input') throw wrongState(row.id, this.#stateOf(row), whatOpens(gate, row.id));
    const { value, faults } = fitSchema(gate.schema ?? {}, inputs ?? {});
    if (faults.length > 0) {
      const placed = faults.map(({ path, message }) => ({
        path: path === '' ? 'inputs' : `inputs.${path}`,
        message,
      }));
      const told = placed.map(({ path, message }) => `${path}: ${message}`).join('; ');
      throw new AgentError(
        'invalid',
        'invalid_inputs',
        `The inputs do not match the gate's schema: ${told}.`,
        {
          faults: placed,
        },
      );
    }
    await this.#goOn(row, { inputs: value, traceparent }, { verb: 'run.resume', by });
  }

  /** Dispatches the next segment, or throws when another run holds the slot. */
  async #goOn(
    row: RunRow,
    opening: Opening,
    act: { readonly verb: 'run.resume' | 'run.run_now'; readonly by: string },
  ): Promise<void> {
    const { slot } = this.#runner;
    const { holder } = slot;
    if (holder !== undefined || !slot.tryTake(row.id)) throw inFlight(holder ?? '');
    if (!(await this.#runner.goOn(row, opening, act)))
      throw wrongState(
        row.id,
        this.#stateOf(await this.#ours(row.id)),
        'it has left its gate in the meantime',
      );
  }

  #stateOf({ state, waiting_on }: RunRow): string {
    const told = shown(state, this.#world);
    return waiting_on === null ? told : `${told}, waiting on ${waiting_on}`;
  }

  async #notPausable(id: string): Promise<AgentError> {
    const row = await this.#ours(id);
    const wanted =
      row.requested === 'cancel' ? 'it is about to be cancelled' : 'only a running run is paused';
    return wrongState(id, this.#stateOf(row), wanted);
  }

  /** @throws AgentError not_found; conflict when the run belongs to another host */
  async #ours(id: string): Promise<RunRow> {
    const { store } = this.#world;
    const row = await store.read((db) => findRun(db, id));
    if (!row) throw noSuchRun(id);
    if (row.ended_at === null && row.endpoint_id !== store.endpointId) throw elsewhere(id, row.endpoint_id);
    return row;
  }
}

function whatOpens(gate: StoredGate | undefined, id: string): string {
  switch (gate?.kind) {
    case 'schedule':
    case 'armed':
      return `POST /agent/v1/runs/${id}/run-now fires it`;
    case 'approval':
      return `approve or discard ${gate.pending_id ?? 'its question'} (GET /agent/v1/pending)`;
    case 'event':
      return `the event '${gate.name ?? ''}' resumes it`;
    case 'time':
    case 'value':
    case 'input':
    case undefined:
      return 'the predicate of its gate resumes it';
  }
}

function notCancellable(row: RunRow): AgentError {
  const said = `The run ${row.id} was dispatched from its gate and cannot be cancelled now; ${whatEnds(row)}.`;
  return new AgentError('conflict', 'not_cancellable', said);
}

function whatEnds({ id, state, waiting_on, gate }: RunRow): string {
  if (state === 'paused') return `resume it (POST /agent/v1/runs/${id}/resume) and let it end`;
  if (waiting_on !== 'approval') return 'cancel it when it is suspended again, or pause it';
  const pending = readGate(gate)?.pending_id;
  return pending === undefined
    ? 'it waits for an approval: decide it (GET /agent/v1/pending)'
    : `it waits for an approval: POST /agent/v1/pending/${pending}/discard ends it`;
}

const notARun = (id: string): AgentError => {
  const what = id.startsWith('t')
    ? 'a task has no step boundary to pause at'
    : 'only runs (r...) can be paused';
  return new AgentError('conflict', 'not_a_run', `${id.slice(0, 100)} cannot be paused: ${what}.`);
};
