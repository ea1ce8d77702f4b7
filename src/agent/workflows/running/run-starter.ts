import type { Store } from '../../../store/index.ts';
import { AgentError } from '../../errors.ts';
import { idempotencyConflict, requestDigest } from '../../idempotency.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Ensemble } from '../definition/ensemble.ts';
import { resolveInputs } from '../definition/inputs.ts';
import { collectNestedSources } from '../definition/nested-workflows.ts';
import { parseEnsemble } from '../definition/parse-ensemble.ts';
import { runStartEvent } from './dispatch.ts';
import { presentState } from './run-records.ts';
import { runInFlight, workflowNotCallable, notRetriableError } from './errors.ts';
import { findRun, type RunRow } from './rows.ts';
import { type RunIdGenerator, runIdPattern } from './run-ids.ts';
import type { RunExecutor } from './run-executor.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextEntryGate } from './suspend-run.ts';
import type { RunServices } from './run-services.ts';

export interface StartRequest {
  readonly input?: string | undefined;
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  readonly retried_from?: string | undefined;
  /** Model in place of `resident`. */
  readonly model?: string | undefined;
}

export interface StartedRun {
  readonly id: string;
  readonly sessionId: string;
  /** Capability of the store session; returned only here. */
  readonly capability: string;
}

interface RunStarterOptions {
  readonly services: RunServices;
  readonly executor: RunExecutor;
  readonly ids: RunIdGenerator;
  readonly workflows: CallableWorkflows;
}

interface WorkflowSource {
  readonly source: string;
  readonly digest: string;
}

/**
 * Looks up workflows that may be run by name. Names that are not enabled are not looked up, to leak nothing by timing.
 */
export interface CallableWorkflows {
  findRunnable(name: string): Promise<WorkflowSource | undefined>;
}

/** Starts runs. */
export class RunStarter {
  readonly #options: RunStarterOptions;

  constructor(options: RunStarterOptions) {
    this.#options = options;
  }

  /** The current source of a workflow. @throws AgentError the same one for unknown and not enabled names */
  async callable(workflow: string): Promise<WorkflowSource> {
    const source = await this.#options.workflows.findRunnable(workflow);
    if (!source) throw workflowNotCallable();
    return source;
  }

  async start(
    workflow: string,
    request: StartRequest,
    by: string,
    traceparent?: string,
    idempotencyKey?: string,
  ): Promise<Pick<StartedRun, 'id'> & Partial<StartedRun>> {
    const key = idempotencyKey === undefined ? undefined : { idempotencyKey, digest: requestDigest(request) };
    const existing = key && (await this.#findByKey(workflow, key));
    if (existing) return existing;
    try {
      return await this.#start(workflow, request, { by, traceparent, key });
    } catch (error) {
      // The same request may have arrived twice at once.
      const started = key && (await this.#findByKey(workflow, key));
      if (started) return started;
      throw error;
    }
  }

  async #start(
    workflow: string,
    request: StartRequest,
    { by, traceparent, key }: { by: string; traceparent: string | undefined; key: RequestKey | undefined },
  ): Promise<StartedRun> {
    const { executor, ids } = this.#options;
    const workflowSource = await this.callable(workflow);
    const ensemble = parseStored(workflowSource.source);
    const inputs = resolveInputs(ensemble, request.inputs ?? {});
    const nestedSources = await collectNestedSources(
      ensemble,
      async (name) => (await this.#options.workflows.findRunnable(name))?.source,
    );
    if (request.retried_from !== undefined) await this.#requireFailed(request.retried_from, workflow);
    const id = ids.next();
    const { holder } = executor.slot;
    if (holder !== undefined || !executor.slot.tryAcquire(id)) throw runInFlight(holder ?? '');
    let inserted: InsertedRun | undefined;
    try {
      inserted = await this.#insert(id, {
        workflow,
        ensemble,
        workflowSource,
        nestedSources,
        inputs,
        request,
        by,
        key,
      });
    } finally {
      if (inserted?.gate || !inserted) executor.slot.release(id);
    }
    const { row, nextSeq, gate, sessionId, capability } = inserted;
    if (gate) executor.waitAtGate(id, gate);
    else executor.startSegment({ row, nextSeq, traceparent });
    return { id, sessionId, capability };
  }

  /** Finds the run that was started with an idempotency key. Throws when its request was a different one. */
  async #findByKey(
    workflow: string,
    { idempotencyKey, digest }: RequestKey,
  ): Promise<Pick<StartedRun, 'id'> | undefined> {
    const row = await this.#options.services.store.read((db) =>
      db
        .selectFrom('runs')
        .select(['id', 'workflow', 'request_digest'])
        .where('idempotency_key', '=', idempotencyKey)
        .executeTakeFirst(),
    );
    if (!row) return undefined;
    if (row.workflow === workflow && row.request_digest === digest) return { id: row.id };
    throw idempotencyConflict(row.id);
  }

  /** Checks `retried_from` against the state that clients see. */
  async #requireFailed(id: string, workflow: string): Promise<void> {
    const { services } = this.#options;
    const row = runIdPattern.test(id) ? await services.store.read((db) => findRun(db, id)) : undefined;
    if (!row) throw notRetriableError(id, 'is not in the run journal');
    if (row.workflow !== workflow)
      throw notRetriableError(id, `is a run of the workflow '${row.workflow}', not of '${workflow}'`);
    const state = presentState(row.state, services);
    if (state !== 'failed') throw notRetriableError(id, `is ${state}`);
  }

  /** Stores the run. A scheduled or armed workflow starts suspended at its entry gate. */
  async #insert(id: string, data: NewRunData): Promise<InsertedRun> {
    const { services } = this.#options;
    const { store, log, sessions, signals } = services;
    const { entry } = data.ensemble;
    const gate = entry && nextEntryGate(entry, services.clock.now(), undefined);
    return await store.transaction(async (tx) => {
      const session = await sessions.open(tx, 'run', id);
      const row: RunRow = { ...newRunRow(id, data, store), session_id: session.id, ...entryColumns(gate) };
      await tx.insertInto('runs').values(row).execute();
      await log.insert(tx, id, 0, runStartEvent(row));
      const { workflow } = row;
      await signals.emit(tx, 'run.started', { id, workflow });
      if (gate) {
        await log.insert(tx, id, 1, runSuspendedEvent(gate));
        await signals.emit(tx, 'run.suspended', { id, workflow, waiting_on: gate.kind });
      }
      const { retried_from } = row;
      const verb = retried_from === null ? 'run.start' : 'run.retry';
      const details = JSON.stringify({
        workflow,
        ...(retried_from === null ? {} : { retried_from }),
      });
      await store.appendAct(tx, { verb, target: id, by: data.by, outcome: 'applied', details });
      return { row, nextSeq: 1, gate, sessionId: session.id, capability: session.capability };
    });
  }
}

/** An idempotency key, and the digest of the request that it came with. */
interface RequestKey {
  readonly idempotencyKey: string;
  readonly digest: string;
}

interface NewRunData {
  readonly workflow: string;
  readonly ensemble: Ensemble;
  readonly workflowSource: WorkflowSource;
  readonly nestedSources: Readonly<Record<string, string>>;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly request: StartRequest;
  readonly by: string;
  readonly key: RequestKey | undefined;
}

interface InsertedRun extends Omit<StartedRun, 'id'> {
  readonly row: RunRow;
  readonly nextSeq: number;
  /** Entry gate of a scheduled or armed workflow. */
  readonly gate: StoredGate | undefined;
}

const newRunRow = (
  id: string,
  { workflow, workflowSource, nestedSources, inputs, request, key }: NewRunData,
  store: Store,
): RunRow => ({
  id,
  endpoint_id: store.endpointId,
  workflow,
  source: workflowSource.source,
  digest: workflowSource.digest,
  nested_sources: Object.keys(nestedSources).length > 0 ? JSON.stringify(nestedSources) : null,
  resident_model: request.model ?? null,
  state: 'running',
  outcome: null,
  waiting_on: null,
  suspend_kind: null,
  wrapper_cycle: null,
  gate: null,
  resumed: 0,
  requested: null,
  input: request.input ?? null,
  inputs: JSON.stringify(inputs),
  retried_from: request.retried_from ?? null,
  started_at: store.time(),
  ended_at: null,
  last_event: 'started',
  result: null,
  engine: null,
  model: null,
  prompt_tokens: null,
  completion_tokens: null,
  session_id: null,
  idempotency_key: key?.idempotencyKey ?? null,
  request_digest: key?.digest ?? null,
});

const runSuspendedEvent = ({ kind }: StoredGate): NewRunEvent => ({
  type: 'run_end',
  outcome: 'suspended',
  waiting_on: kind,
});

const entryColumns = (gate: StoredGate | undefined): Partial<RunRow> =>
  gate
    ? {
        state: 'suspended',
        waiting_on: gate.kind,
        suspend_kind: 'entry_gate',
        wrapper_cycle: 0,
        gate: JSON.stringify(gate),
        last_event: `waits at the entry (${gate.kind})`,
      }
    : {};

/** Parses a stored source, which may come from an older host and be invalid for this one. */
function parseStored(source: string): Ensemble {
  try {
    return parseEnsemble(source);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const { code, message, faults } = error;
    throw new AgentError('conflict', code, `${message} Replace it with PUT.`, faults ? { faults } : {});
  }
}
