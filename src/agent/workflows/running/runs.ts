import type { EventLog } from '../../event-log.ts';
import type { LiveRows } from '../../services.ts';
import type { RunDetail, RunRecord } from '../../shapes/run.ts';
import type { Session } from '../../shapes/session.ts';
import { RunControl } from './control.ts';
import { toDetail, toRecord, toSession } from './records.ts';
import { noSuchRun } from './refusals.ts';
import { cycleOf, findRun, liveRuns, type RunRow } from './rows.ts';
import { RunIds } from './run-ids.ts';
import { Runner } from './runner.ts';
import { type CallableWorkflows, type Started, type StartRequest, RunStarts } from './starting.ts';
import { type RunWorld, usualPace } from './world.ts';

export interface RunsOptions extends Omit<RunWorld, 'pace'> {
  readonly workflows: CallableWorkflows;
  readonly pace?: Partial<RunWorld['pace']>;
}

/** Cycles of a run whose steps are included in its detail. */
const shownCycles = 10;

/** Workflow runs of this host: one in flight, and any number suspended at gates. */
export class Runs implements LiveRows {
  readonly #options: RunsOptions;
  readonly #ids: RunIds;
  readonly #runner: Runner;
  readonly #starts: RunStarts;
  readonly #control: RunControl;

  constructor(options: RunsOptions) {
    const world: RunWorld = { ...options, pace: { ...usualPace, ...options.pace } };
    this.#options = options;
    this.#ids = new RunIds(options.clock);
    this.#runner = new Runner(world);
    this.#starts = new RunStarts({
      world,
      runner: this.#runner,
      ids: this.#ids,
      workflows: options.workflows,
    });
    this.#control = new RunControl(world, this.#runner);
  }

  /** Continues where the previous process stopped. Call it once, before anything else. */
  async recover(): Promise<void> {
    const { store } = this.#options;
    const newest = await store.read((db) =>
      db.selectFrom('runs').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst(),
    );
    this.#ids.startAfter(newest?.id);
    await this.#runner.recover();
  }

  /** Ended runs and cycles since the start of the host, for its telemetry. */
  get served(): number {
    return this.#runner.served;
  }

  /** @throws AgentError `workflow_not_found`, for unknown and for not enabled workflows */
  async requireCallable(workflow: string): Promise<void> {
    await this.#starts.callable(workflow);
  }

  /**
   * @throws AgentError workflow_not_found; invalid: `invalid_inputs`; conflict: `run_in_flight`,
   * `invalid_retried_from`, `invalid_workflow`
   */
  async start(workflow: string, request: StartRequest, by: string, traceparent?: string): Promise<Started> {
    return await this.#starts.start(workflow, request, by, traceparent);
  }

  /**
   * Pauses at the next step boundary.
   * @throws AgentError run_not_found; conflict: `wrong_state`, `not_a_run`, `other_host`
   */
  async pause(id: string, by: string): Promise<{ id: string; pause: 'requested' }> {
    return await this.#control.pause(id, by);
  }

  /** @throws AgentError run_not_found; invalid: `invalid_inputs`; conflict */
  async resume(
    id: string,
    inputs: Readonly<Record<string, unknown>> | undefined,
    by: string,
    traceparent?: string,
  ): Promise<{ id: string; resumed: true }> {
    return await this.#control.resume(id, inputs, by, traceparent);
  }

  /** @throws AgentError run_not_found; conflict */
  async runNow(id: string, by: string, traceparent?: string): Promise<{ id: string; dispatched: true }> {
    return await this.#control.runNow(id, by, traceparent);
  }

  /**
   * Cancels at the next step boundary, or at once when no step is in progress.
   * @throws AgentError not_found: there is no such run, or it has ended; conflict: `not_cancellable`, `other_host`
   */
  async cancel(id: string, by: string): Promise<{ id: string; cancel: 'requested' }> {
    return await this.#control.cancel(id, by);
  }

  /** @throws AgentError run_not_found */
  async detail(id: string): Promise<RunDetail> {
    const found = await this.#options.store.read(async (db) => {
      const row = await findRun(db, id);
      if (!row) return undefined;
      const steps = await db
        .selectFrom('run_steps')
        .selectAll()
        .where('run_id', '=', id)
        .where('cycle', '>', cycleOf(row) - shownCycles)
        .orderBy('cycle')
        .orderBy('position')
        .execute();
      return { row, steps };
    });
    if (!found) throw noSuchRun(id);
    return toDetail(found.row, found.steps, this.#options);
  }

  /** The run journal, newest first. */
  async list(limit: number): Promise<RunRecord[]> {
    const rows = await this.#options.store.read((db) =>
      db
        .selectFrom('runs')
        .selectAll()
        .orderBy('started_at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute(),
    );
    return rows.map((row) => toRecord(row, this.#options));
  }

  /** Running, paused and suspended runs of this host. */
  async live(): Promise<Session[]> {
    const { store } = this.#options;
    const rows = await store.read((db) => liveRuns(db, store.endpointId));
    return rows.map((row) => toSession(row, this.#options));
  }

  /**
   * The events of a run after a `seq`, until no segment is open.
   * @throws AgentError run_not_found
   */
  async events(id: string, after: number, signal: AbortSignal): Promise<ReturnType<EventLog['read']>> {
    const { log } = this.#options;
    await this.#row(id);
    const ended = async () => {
      const { state } = await this.#row(id);
      return state !== 'running' && state !== 'paused';
    };
    return log.read(id, { after, signal, ended });
  }

  /** Emits a user signal, for gates of the kind `event`. @returns its `seq` */
  async signal(name: string, data: Readonly<Record<string, unknown>>): Promise<number> {
    const { store, signals } = this.#options;
    return await store.transaction((tx) => signals.add(tx, name, data));
  }

  /** Stops live runs; the next start of the host continues them. */
  async close(): Promise<void> {
    await this.#runner.close();
  }

  async #row(id: string): Promise<RunRow> {
    const row = await this.#options.store.read((db) => findRun(db, id));
    if (!row) throw noSuchRun(id);
    return row;
  }
}
