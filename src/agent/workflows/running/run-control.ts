import { AgentError } from '../../errors.ts';
import { validateWithDefaults } from '../definition/json-schema.ts';
import { endSuspended } from './dispatch.ts';
import type { GateOpening } from './wait-for-gate.ts';
import { discardAllStaged } from './questions.ts';
import { isCancellable, presentState } from './run-records.ts';
import { runOnOtherHost, runInFlight, runNotFound, wrongStateError } from './errors.ts';
import { updateRun, findRun, type RunRow } from './rows.ts';
import type { RunExecutor } from './run-executor.ts';
import { parseGate, type StoredGate } from './stored-gate.ts';
import type { RunServices } from './run-services.ts';

type Inputs = Readonly<Record<string, unknown>>;

/** Control verbs of runs: pause, resume, run-now and cancel. Each is stored before it is answered. */
export class RunControl {
  readonly #services: RunServices;
  readonly #executor: RunExecutor;

  constructor(services: RunServices, executor: RunExecutor) {
    this.#services = services;
    this.#executor = executor;
  }

  async pause(id: string, by: string): Promise<{ id: string; pause: 'requested' }> {
    if (!id.startsWith('r')) throw notPausableKindError(id);
    const row = await this.#requireOwn(id);
    if (row.ended_at !== null)
      throw new AgentError(
        'not_found',
        'run_not_live',
        `The run ${id} is ${presentState(row.state, this.#services)}.`,
      );
    const live = this.#executor.live(id);
    const { store } = this.#services;
    const isRequested =
      live !== undefined &&
      (await store.transaction(async (tx) => {
        const update = await tx
          .updateTable('runs')
          .set({ requested: 'pause' })
          .where('id', '=', id)
          .where('state', '=', 'running')
          .where('requested', 'is distinct from', 'cancel')
          .executeTakeFirst();
        if (update.numUpdatedRows === 0n) return false;
        await store.appendAct(tx, { verb: 'run.pause', target: id, by, outcome: 'applied' });
        return true;
      }));
    if (!live || !isRequested) throw await this.#notPausableError(id);
    live.requests.pause = true;
    live.requests.notify();
    return { id, pause: 'requested' };
  }

  async resume(
    id: string,
    inputs: Inputs | undefined,
    by: string,
    traceparent?: string,
  ): Promise<{ id: string; resumed: true }> {
    const row = await this.#requireOwn(id);
    if (row.state === 'paused') await this.#resumePaused(row, inputs, by);
    else if (row.state === 'suspended') await this.#answerGate(row, inputs, by, traceparent);
    else
      throw wrongStateError(
        id,
        this.#describeState(row),
        'only a paused run, or one that waits for inputs, is resumed',
      );
    return { id, resumed: true };
  }

  async runNow(id: string, by: string, traceparent?: string): Promise<{ id: string; dispatched: true }> {
    const row = await this.#requireOwn(id);
    if (row.state !== 'suspended' || row.suspend_kind !== 'entry_gate')
      throw wrongStateError(
        id,
        this.#describeState(row),
        'run-now is for one that waits at its entry, armed or scheduled',
      );
    await this.#dispatchSegment(row, { traceparent }, { verb: 'run.run_now', by });
    return { id, dispatched: true };
  }

  async cancel(id: string, by: string): Promise<{ id: string; cancel: 'requested' }> {
    const row = await this.#requireOwn(id);
    if (row.ended_at !== null)
      throw new AgentError(
        'not_found',
        'run_not_live',
        `The run ${id} is ${presentState(row.state, this.#services)}.`,
      );
    const cancelled =
      row.state === 'suspended' ? await this.#cancelSuspended(id, by) : await this.#requestCancel(id, by);
    if (cancelled) return { id, cancel: 'requested' };
    // Its state has changed since it was read.
    const current = await this.#requireOwn(id);
    if (current.state !== row.state || isCancellable(current)) return await this.cancel(id, by);
    throw notCancellableError(current);
  }

  async #cancelSuspended(id: string, by: string): Promise<boolean> {
    const ended = await endSuspended(this.#services, id, { outcome: 'cancelled' }, by);
    if (!ended) return false;
    this.#executor.stopWaitingAtGate(id);
    await discardAllStaged(this.#services, { runId: id }, by, `the run ${id} was cancelled`);
    return true;
  }

  /** Requests cancellation at the next step boundary. */
  async #requestCancel(id: string, by: string): Promise<boolean> {
    const { store } = this.#services;
    const isRequested = await store.transaction(async (tx) => {
      const update = await tx
        .updateTable('runs')
        .set({ requested: 'cancel' })
        .where('id', '=', id)
        .where('state', 'in', ['running', 'paused'])
        .where('resumed', '=', 0)
        .executeTakeFirst();
      if (update.numUpdatedRows === 0n) return false;
      await store.appendAct(tx, { verb: 'run.cancel', target: id, by, outcome: 'applied' });
      return true;
    });
    const live = this.#executor.live(id);
    if (!isRequested || !live) return isRequested;
    live.requests.cancel ??= by;
    live.requests.notify();
    return true;
  }

  async #resumePaused(row: RunRow, inputs: Inputs | undefined, by: string): Promise<void> {
    const { store } = this.#services;
    if (inputs !== undefined)
      throw wrongStateError(row.id, 'paused', 'a paused run takes no inputs: resume it without inputs');
    const resumed = await store.transaction(async (tx) => {
      const updated = await updateRun(tx, row.id, ['paused'], { state: 'running', last_event: 'resumed' });
      if (updated) await store.appendAct(tx, { verb: 'run.resume', target: row.id, by, outcome: 'applied' });
      return updated !== undefined;
    });
    if (!resumed)
      throw wrongStateError(
        row.id,
        this.#describeState(await this.#requireOwn(row.id)),
        'only a paused run is resumed',
      );
    this.#executor.live(row.id)?.resume();
  }

  async #answerGate(
    row: RunRow,
    inputs: Inputs | undefined,
    by: string,
    traceparent: string | undefined,
  ): Promise<void> {
    const gate = parseGate(row.gate);
    if (gate?.kind !== 'input')
      throw wrongStateError(row.id, this.#describeState(row), describeOpening(gate, row.id));
    const { value, faults } = validateWithDefaults(gate.schema ?? {}, inputs ?? {});
    if (faults.length > 0) {
      const inputFaults = faults.map(({ path, message }) => ({
        path: path === '' ? 'inputs' : `inputs.${path}`,
        message,
      }));
      const summary = inputFaults.map(({ path, message }) => `${path}: ${message}`).join('; ');
      throw new AgentError(
        'invalid',
        'invalid_inputs',
        `The inputs do not match the gate's schema: ${summary}.`,
        {
          faults: inputFaults,
        },
      );
    }
    await this.#dispatchSegment(row, { inputs: value, traceparent }, { verb: 'run.resume', by });
  }

  /** Dispatches the next segment, or throws when another run holds the slot. */
  async #dispatchSegment(
    row: RunRow,
    opening: GateOpening,
    actInfo: { readonly verb: 'run.resume' | 'run.run_now'; readonly by: string },
  ): Promise<void> {
    const { slot } = this.#executor;
    const { holder } = slot;
    if (holder !== undefined || !slot.tryAcquire(row.id)) throw runInFlight(holder ?? '');
    if (!(await this.#executor.dispatchAndStart(row, opening, actInfo)))
      throw wrongStateError(
        row.id,
        this.#describeState(await this.#requireOwn(row.id)),
        'it has left its gate in the meantime',
      );
  }

  #describeState({ state, waiting_on }: RunRow): string {
    const description = presentState(state, this.#services);
    return waiting_on === null ? description : `${description}, waiting on ${waiting_on}`;
  }

  async #notPausableError(id: string): Promise<AgentError> {
    const row = await this.#requireOwn(id);
    const requirement =
      row.requested === 'cancel' ? 'it is about to be cancelled' : 'only a running run is paused';
    return wrongStateError(id, this.#describeState(row), requirement);
  }

  /** @throws AgentError not_found; conflict when the run belongs to another host */
  async #requireOwn(id: string): Promise<RunRow> {
    const { store } = this.#services;
    const row = await store.read((db) => findRun(db, id));
    if (!row) throw runNotFound(id);
    if (row.ended_at === null && row.endpoint_id !== store.endpointId)
      throw runOnOtherHost(id, row.endpoint_id);
    return row;
  }
}

function describeOpening(gate: StoredGate | undefined, id: string): string {
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

function notCancellableError(row: RunRow): AgentError {
  const message = `The run ${row.id} was dispatched from its gate and cannot be cancelled now; ${describeHowToEnd(row)}.`;
  return new AgentError('conflict', 'not_cancellable', message);
}

function describeHowToEnd({ id, state, waiting_on, gate }: RunRow): string {
  if (state === 'paused') return `resume it (POST /agent/v1/runs/${id}/resume) and let it end`;
  if (waiting_on !== 'approval') return 'cancel it when it is suspended again, or pause it';
  const pending = parseGate(gate)?.pending_id;
  return pending === undefined
    ? 'it waits for an approval: decide it (GET /agent/v1/pending)'
    : `it waits for an approval: POST /agent/v1/pending/${pending}/discard ends it`;
}

const notPausableKindError = (id: string): AgentError => {
  const reason = id.startsWith('t')
    ? 'a task has no step boundary to pause at'
    : 'only runs (r...) can be paused';
  return new AgentError('conflict', 'not_a_run', `${id.slice(0, 100)} cannot be paused: ${reason}.`);
};
