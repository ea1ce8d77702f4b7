import type { Store } from '../../../store/index.ts';
import { AgentError } from '../../errors.ts';
import type { NewRunEvent } from '../../shapes/run.ts';
import type { Ensemble } from '../definition/ensemble.ts';
import { resolveInputs } from '../definition/inputs.ts';
import { parseEnsemble } from '../definition/parse.ts';
import { startEvent } from './dispatch.ts';
import { shown } from './records.ts';
import { inFlight, notCallable, notRetriable } from './refusals.ts';
import { findRun, type RunRow } from './rows.ts';
import { type RunIds, runIdForm } from './run-ids.ts';
import type { Runner } from './runner.ts';
import type { StoredGate } from './stored-gate.ts';
import { nextEntry } from './suspending.ts';
import type { RunWorld } from './world.ts';

export interface StartRequest {
  readonly input?: string | undefined;
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  readonly retried_from?: string | undefined;
}

export interface Started {
  readonly id: string;
  readonly sessionId: string;
  /** Capability of the store session; returned only here. */
  readonly capability: string;
}

interface RunStartsOptions {
  readonly world: RunWorld;
  readonly runner: Runner;
  readonly ids: RunIds;
  readonly workflows: CallableWorkflows;
}

interface Source {
  readonly source: string;
  readonly digest: string;
}

/**
 * Looks up workflows that may be run by name. Names that are not enabled are not looked up, to leak nothing by timing.
 */
export interface CallableWorkflows {
  callable(name: string): Promise<Source | undefined>;
}

/** Starts runs. */
export class RunStarts {
  readonly #options: RunStartsOptions;

  constructor(options: RunStartsOptions) {
    this.#options = options;
  }

  /** The current source of a workflow. @throws AgentError the same one for unknown and not enabled names */
  async callable(workflow: string): Promise<Source> {
    const found = await this.#options.workflows.callable(workflow);
    if (!found) throw notCallable();
    return found;
  }

  async start(workflow: string, request: StartRequest, by: string, traceparent?: string): Promise<Started> {
    const { runner, ids } = this.#options;
    const found = await this.callable(workflow);
    const ensemble = readable(found.source);
    const inputs = resolveInputs(ensemble, request.inputs ?? {});
    if (request.retried_from !== undefined) await this.#requireFailed(request.retried_from, workflow);
    const id = ids.next();
    const { holder } = runner.slot;
    if (holder !== undefined || !runner.slot.tryTake(id)) throw inFlight(holder ?? '');
    let started: Begun | undefined;
    try {
      started = await this.#insert(id, { workflow, ensemble, found, inputs, request, by });
    } finally {
      if (started?.gate || !started) runner.slot.free(id);
    }
    const { row, nextSeq, gate, sessionId, capability } = started;
    if (gate) runner.arm(id, gate);
    else runner.begin({ row, nextSeq, traceparent });
    return { id, sessionId, capability };
  }

  /** Checks `retried_from` against the state that clients see. */
  async #requireFailed(id: string, workflow: string): Promise<void> {
    const { world } = this.#options;
    const row = runIdForm.test(id) ? await world.store.read((db) => findRun(db, id)) : undefined;
    if (!row) throw notRetriable(id, 'is not in the run journal');
    if (row.workflow !== workflow)
      throw notRetriable(id, `is a run of the workflow '${row.workflow}', not of '${workflow}'`);
    const state = shown(row.state, world);
    if (state !== 'failed') throw notRetriable(id, `is ${state}`);
  }

  /** Stores the run. A scheduled or armed workflow starts suspended at its entry gate. */
  async #insert(id: string, about: About): Promise<Begun> {
    const { world } = this.#options;
    const { store, log, sessions } = world;
    const { entry } = about.ensemble;
    const gate = entry && nextEntry(entry, world.clock.now(), undefined);
    return await store.transaction(async (tx) => {
      const session = await sessions.open(tx, 'run', id);
      const row: RunRow = { ...newRun(id, about, store), session_id: session.id, ...atEntry(gate) };
      await tx.insertInto('runs').values(row).execute();
      await log.insert(tx, id, 0, startEvent(row));
      if (gate) await log.insert(tx, id, 1, suspendedEvent(gate));
      const { retried_from } = row;
      const verb = retried_from === null ? 'run.start' : 'run.retry';
      const details = JSON.stringify({
        workflow: row.workflow,
        ...(retried_from === null ? {} : { retried_from }),
      });
      await store.act(tx, { verb, target: id, by: about.by, outcome: 'applied', details });
      return { row, nextSeq: 1, gate, sessionId: session.id, capability: session.capability };
    });
  }
}

interface About {
  readonly workflow: string;
  readonly ensemble: Ensemble;
  readonly found: Source;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly request: StartRequest;
  readonly by: string;
}

interface Begun extends Omit<Started, 'id'> {
  readonly row: RunRow;
  readonly nextSeq: number;
  /** Entry gate of a scheduled or armed workflow. */
  readonly gate: StoredGate | undefined;
}

const newRun = (id: string, { workflow, found, inputs, request }: About, store: Store): RunRow => ({
  id,
  endpoint_id: store.endpointId,
  workflow,
  source: found.source,
  digest: found.digest,
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
});

const suspendedEvent = ({ kind }: StoredGate): NewRunEvent => ({
  type: 'run_end',
  outcome: 'suspended',
  waiting_on: kind,
});

const atEntry = (gate: StoredGate | undefined): Partial<RunRow> =>
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
function readable(source: string): Ensemble {
  try {
    return parseEnsemble(source);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const { code, message, faults } = error;
    throw new AgentError('conflict', code, `${message} Replace it with PUT.`, faults ? { faults } : {});
  }
}
