import type { EventLog } from '../../event-log.ts';
import type { LiveSessionSource } from '../../services.ts';
import type { RunDetail, RunRecord } from '../../shapes/run.ts';
import type { Session } from '../../shapes/session.ts';
import { RunControl } from './run-control.ts';
import { toRunDetail, toRunRecord, toRunSession } from './run-records.ts';
import { runNotFound } from './errors.ts';
import { currentCycle, findRun, listLiveRuns, type RunRow } from './rows.ts';
import { RunIdGenerator } from './run-ids.ts';
import { RunExecutor } from './run-executor.ts';
import { type CallableWorkflows, type StartedRun, type StartRequest, RunStarter } from './run-starter.ts';
import { type RunServices, defaultTimings } from './run-services.ts';

export interface RunsOptions extends Omit<RunServices, 'timings'> {
  readonly workflows: CallableWorkflows;
  readonly timings?: Partial<RunServices['timings']>;
}

/** Cycles of a run whose steps are included in its detail. */
const maxShownCycles = 10;

/** Workflow runs of this host: one in flight, and any number suspended at gates. */
export class WorkflowRuns implements LiveSessionSource {
  readonly #options: RunsOptions;
  readonly #ids: RunIdGenerator;
  readonly #executor: RunExecutor;
  readonly #runStarter: RunStarter;
  readonly #control: RunControl;

  constructor(options: RunsOptions) {
    const services: RunServices = { ...options, timings: { ...defaultTimings, ...options.timings } };
    this.#options = options;
    this.#ids = new RunIdGenerator(options.clock);
    this.#executor = new RunExecutor(services);
    this.#runStarter = new RunStarter({
      services,
      executor: this.#executor,
      ids: this.#ids,
      workflows: options.workflows,
    });
    this.#control = new RunControl(services, this.#executor);
  }

  /** Continues where the previous process stopped. Call it once, before anything else. */
  async recover(): Promise<void> {
    const { store } = this.#options;
    const newest = await store.read((db) =>
      db.selectFrom('runs').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst(),
    );
    this.#ids.startAfter(newest?.id);
    await this.#executor.recover();
  }

  /** Ended runs and cycles since the start of the host, for its telemetry. */
  get served(): number {
    return this.#executor.served;
  }

  /** @throws AgentError `workflow_not_found`, for unknown and for not enabled workflows */
  async requireCallable(workflow: string): Promise<void> {
    await this.#runStarter.callable(workflow);
  }

  /**
   * @throws AgentError workflow_not_found; invalid: `invalid_inputs`; conflict: `run_in_flight`,
   * `invalid_retried_from`, `invalid_workflow`, `idempotency_conflict`. A known idempotency key returns the run that was
   * started with it, without its capability
   */
  async start(
    workflow: string,
    request: StartRequest,
    by: string,
    traceparent?: string,
    idempotencyKey?: string,
  ): Promise<Pick<StartedRun, 'id'> & Partial<StartedRun>> {
    return await this.#runStarter.start(workflow, request, by, traceparent, idempotencyKey);
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
    const detail = await this.#options.store.read(async (db) => {
      const row = await findRun(db, id);
      if (!row) return undefined;
      const steps = await db
        .selectFrom('run_steps')
        .selectAll()
        .where('run_id', '=', id)
        .where('cycle', '>', currentCycle(row) - maxShownCycles)
        .orderBy('cycle')
        .orderBy('position')
        .execute();
      return { row, steps };
    });
    if (!detail) throw runNotFound(id);
    return toRunDetail(detail.row, detail.steps, this.#options);
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
    return rows.map((row) => toRunRecord(row, this.#options));
  }

  /** Running, paused and suspended runs of this host. */
  async live(): Promise<Session[]> {
    const { store } = this.#options;
    const rows = await store.read((db) => listLiveRuns(db, store.endpointId));
    return rows.map((row) => toRunSession(row, this.#options));
  }

  /**
   * The events of a run after a `seq`, until no segment is open.
   * @throws AgentError run_not_found
   */
  async events(id: string, after: number, signal: AbortSignal): Promise<ReturnType<EventLog['read']>> {
    const { log } = this.#options;
    await this.#row(id);
    const isComplete = async () => {
      const { state } = await this.#row(id);
      return state !== 'running' && state !== 'paused';
    };
    return log.read(id, { after, signal, isComplete });
  }

  /** Emits a user signal, for gates of the kind `event`. @returns its `seq` */
  async emitSignal(name: string, data: Readonly<Record<string, unknown>>): Promise<number> {
    const { store, signals } = this.#options;
    return await store.transaction((tx) => signals.add(tx, name, data));
  }

  /** Stops live runs; the next start of the host continues them. */
  async close(): Promise<void> {
    await this.#executor.close();
  }

  async #row(id: string): Promise<RunRow> {
    const row = await this.#options.store.read((db) => findRun(db, id));
    if (!row) throw runNotFound(id);
    return row;
  }
}
