import { type Store, StoreError } from '../../store/index.ts';
import { unlessAborted } from '../../util/abort.ts';
import type { Clock } from '../clock.ts';
import type { Changes, Decision, Signals, Toolbox } from '../services.ts';
import type { PendingChange, PendingChangeDetail } from '../shapes/pending-change.ts';
import type { ChangeTool, Proposal, ToolContext, ToolOutput } from '../tool.ts';
import { waitForChange } from '../wait-for-change.ts';
import { afterCrash, applyChange, type Ending } from './applying.ts';
import { isAutoApproved, PendingLedger } from './ledger.ts';
import { countStaged, stagedChanges } from './listing.ts';
import { Recorder } from './recorder.ts';
import { decidedOtherwise, noSuchChange, stagedElsewhere, toolGone } from './refusals.ts';
import { asChange, asDetail, outputOf, type PendingRow } from './rows.ts';

interface PendingChangesOptions {
  readonly store: Store;
  readonly signals: Signals;
  readonly tools: Pick<Toolbox, 'find'>;
  readonly clock: Clock;
  /** Aborted when the host stops; it also aborts changes that are being applied. */
  readonly stopping: AbortSignal;
  /** How long a person has to decide; default 7 days. */
  readonly lifetimeMs?: number;
  /** How often the database is polled for decisions on other hosts; default 2 s. */
  readonly pollMs?: number;
}

const day = 24 * 60 * 60 * 1000;
/** How long an approval waits for another host that is applying the same change. */
const mostWaitMs = 30_000;
/** Maximum staged changes of one task or run, because a person has to read them and all of them are stored. */
const mostStaged = 100;

/** Questions of the host itself, with their risk. Approving one applies no tool. */
const questions = { approval_gate: 'low', rerun_step: 'high' } as const;
const isQuestion = (tool: string) => Object.hasOwn(questions, tool);

/** Pending changes: staging, approval and application. A decision is stored before anyone is notified. */
export class PendingChanges implements Changes {
  readonly #store: Store;
  readonly #tools: Pick<Toolbox, 'find'>;
  readonly #clock: Clock;
  readonly #stopping: AbortSignal;
  readonly #pollMs: number;
  readonly #ledger: PendingLedger;
  readonly #recorder: Recorder;
  /** What this process is applying, by id. */
  readonly #applying = new Map<string, Promise<Ending | undefined>>();
  #changed = Promise.withResolvers<void>();

  constructor(options: PendingChangesOptions) {
    const { store, signals, tools, clock, stopping, lifetimeMs = 7 * day, pollMs = 2000 } = options;
    this.#store = store;
    this.#tools = tools;
    this.#clock = clock;
    this.#stopping = stopping;
    this.#pollMs = pollMs;
    this.#ledger = new PendingLedger({ store, signals, lifetimeMs });
    this.#recorder = new Recorder(this.#ledger);
  }

  /**
   * Resolves interrupted applications, stores outcomes that could not be stored before, and expires overdue changes.
   * Runs when the host starts, before anything else, and then about every minute.
   */
  async sweep(): Promise<void> {
    for (const row of await this.#ledger.interrupted()) if (this.#isAbandoned(row)) await this.#resolve(row);
    await this.#expire();
  }

  /** Resolves when all running applications have ended and their outcomes are stored. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#applying.values());
  }

  async stage(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<PendingChange> {
    return asChange(await this.#ledger.add(rowOf(tool, proposal, context), { most: mostStaged }));
  }

  async applyNow(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<ToolOutput> {
    const row = await this.#ledger.add(rowOf(tool, proposal, context), { autoApproved: true });
    const signal = AbortSignal.any([context.signal, this.#stopping]);
    const ending = await this.#once(row.id, async () =>
      this.#record(row, await applyChange(tool, row, signal)),
    );
    if (!ending?.output) throw new Error(`${row.id} was applied without an output`);
    return ending.output;
  }

  async ask(question: Parameters<Changes['ask']>[0]): Promise<PendingChange> {
    const { tool, agent, runId: run_id, step, intent, summary } = question;
    const about = { tool, agent, run_id, step, intent, summary };
    const risk = questions[tool];
    return asChange(await this.#ledger.add({ ...about, kind: 'tool_call', risk, payload: 'null' }));
  }

  async list(): Promise<PendingChange[]> {
    return await this.#store.read((db) => stagedChanges(db, this.#store.time()));
  }

  /** Number of changes that `list` returns. */
  async count(): Promise<number> {
    return await this.#store.read((db) => countStaged(db, this.#store.time()));
  }

  /** A change in any state. @throws AgentError not_found */
  async get(id: string): Promise<PendingChangeDetail> {
    const row = await this.#ledger.find(id);
    if (!row) throw noSuchChange(id);
    return asDetail(this.#isOverdue(row) ? { ...row, state: 'expired' } : row);
  }

  async approve(id: string, by: string, signal: AbortSignal): Promise<{ id: string; applied: true }> {
    const begun = this.#clock.monotonic();
    for (;;) {
      const changed = this.#changed.promise;
      const row = await this.#current(id);
      if (row.state === 'applied') return { id, applied: true };
      if (row.state === 'staged') {
        const ending = await unlessAborted(this.#decideAndApply(row, by), signal);
        if (ending?.error) throw ending.error;
      } else if (row.state === 'applying' && this.#clock.monotonic() - begun < mostWaitMs) {
        // It is being applied, here or on another host: wait for that outcome.
        const here = this.#applying.get(id);
        const ending = here && (await unlessAborted(here, signal));
        if (ending?.error) throw ending.error;
        if (!here) await waitForChange(changed, this.#pollMs, signal);
      } else throw await this.#refused(row, 'approve', by);
    }
  }

  async discard(id: string, by: string, note?: string): Promise<{ id: string; discarded: true }> {
    for (;;) {
      const before = await this.#current(id);
      if (before.state === 'discarded') return { id, discarded: true };
      if (before.state !== 'staged') throw await this.#refused(before, 'discard', by);
      const { decided } = await this.#ledger.decide(id, 'discarded', by, note === undefined ? {} : { note });
      if (decided) this.#tell();
    }
  }

  async decision(id: string, signal: AbortSignal): Promise<Decision> {
    for (;;) {
      signal.throwIfAborted();
      const changed = this.#changed.promise;
      const decided = await this.#decided(id);
      if (decided) return decided;
      await waitForChange(changed, this.#pollMs, signal);
    }
  }

  async #decided(id: string): Promise<Decision | undefined> {
    try {
      const row = await this.#ledger.find(id);
      if (!row) throw noSuchChange(id);
      if (this.#isOverdue(row)) await this.#expire();
      const { state } = row;
      const output = outputOf(row);
      return state === 'staged' || state === 'applying'
        ? undefined
        : { state, ...(output ? { output } : {}) };
    } catch (error) {
      // The wait may take days and must survive a temporary database failure.
      if (error instanceof StoreError) return undefined;
      throw error;
    }
  }

  /** The current row, after expiring it if it is overdue and resolving it if its application was interrupted. */
  async #current(id: string): Promise<PendingRow> {
    for (;;) {
      const row = await this.#ledger.find(id);
      if (!row) throw noSuchChange(id);
      if (this.#isOverdue(row)) await this.#expire();
      else if (this.#isAbandoned(row)) await this.#resolve(row);
      else return row;
    }
  }

  #isOverdue({ state, expires_at }: PendingRow): boolean {
    return state === 'staged' && expires_at <= this.#store.time();
  }

  /** Whether this host, in this or a previous process, left the application of the change unfinished. */
  #isAbandoned({ id, state, applier }: PendingRow): boolean {
    return state === 'applying' && applier === this.#store.endpointId && !this.#applying.has(id);
  }

  /** @returns undefined when another decision came first */
  async #decideAndApply(row: PendingRow, by: string): Promise<Ending | undefined> {
    const { id } = row;
    if (isQuestion(row.tool)) {
      const output = { ok: true, output: 'A person approved it.', truncated: false };
      const { decided } = await this.#ledger.decide(id, 'applied', by, { output });
      if (decided) this.#tell();
      return undefined;
    }
    // Paths and MCP servers belong to the host that staged the change.
    if (row.endpoint_id !== this.#store.endpointId) {
      const error = stagedElsewhere(id, row.endpoint_id);
      await this.#ledger.refuse(row, 'approve', by, error.code);
      throw error;
    }
    const tool = this.#tools.find(row.tool);
    const why = whyNot(tool);
    if (tool?.kind !== 'change' || why !== undefined) {
      const error = toolGone(id, row.tool, why ?? 'there is no such tool');
      await this.#ledger.refuse(row, 'approve', by, error.code);
      throw error;
    }
    return await this.#once(id, async () => {
      const { row: claimed, claimed: isOurs } = await this.#ledger.claim(id, by);
      if (!isOurs || !claimed) return undefined;
      return await this.#record(claimed, await applyChange(tool, claimed, this.#stopping));
    });
  }

  async #resolve(row: PendingRow): Promise<void> {
    await this.#once(row.id, async () => {
      const tool = isQuestion(row.tool) ? undefined : this.#tools.find(row.tool);
      const known = this.#recorder.unrecorded(row.id);
      return await this.#record(
        row,
        known ?? (await afterCrash(tool?.kind === 'change' ? tool : undefined, row)),
      );
    });
  }

  async #record(row: PendingRow, ending: Ending): Promise<Ending> {
    // An automatically approved change cannot go back to a person, so it has failed.
    const { error: _, ...told } = ending;
    const final: Ending =
      ending.state === 'staged' && isAutoApproved(row) ? { ...told, state: 'failed' } : ending;
    await this.#recorder.record(row, final);
    return final;
  }

  /** One application of a change at a time in this process. */
  #once(id: string, work: () => Promise<Ending | undefined>): Promise<Ending | undefined> {
    const running = this.#applying.get(id);
    if (running) return running;
    const started = work().finally(() => {
      this.#applying.delete(id);
      this.#tell();
    });
    this.#applying.set(id, started);
    return started;
  }

  async #expire(): Promise<void> {
    if ((await this.#ledger.expire()) > 0) this.#tell();
  }

  async #refused(row: PendingRow, verb: 'approve' | 'discard', by: string): Promise<Error> {
    const error = decidedOtherwise(row);
    await this.#ledger.refuse(row, verb, by, error.code);
    return error;
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

function whyNot(tool: ReturnType<Toolbox['find']>): string | undefined {
  if (tool?.kind === 'read') return 'it changes nothing any more';
  return tool?.unavailable?.();
}

function rowOf(tool: ChangeTool, proposal: Proposal, context: ToolContext) {
  if (isQuestion(tool.name)) throw new Error(`a tool may not be called '${tool.name}'`);
  const { kind, intent, summary, path, diff, baseHash, risk, payload } = proposal;
  const { agent, taskId, runId, step, sessionId } = context;
  return {
    kind,
    tool: tool.name,
    agent,
    intent,
    summary,
    risk,
    payload: JSON.stringify(payload ?? null),
    task_id: taskId ?? null,
    run_id: runId ?? null,
    step: step ?? null,
    session_id: sessionId ?? null,
    path: path ?? null,
    diff: diff ?? null,
    base_hash: baseHash ?? null,
  };
}
