import { type Store, StoreError } from '../../store/index.ts';
import { raceAbort } from '../../util/race-abort.ts';
import type { Clock } from '../clock.ts';
import {
  type ChangeDecision,
  type InterruptedChange,
  type PendingChangeService,
  repeatQuestion,
  type SignalStore,
  type Toolbox,
} from '../services.ts';
import type { PendingChange, PendingChangeDetail } from '../shapes/pending-change.ts';
import type {
  ChangeSet,
  ChangeText,
  ChangeTool,
  OnOutput,
  Proposal,
  StagedFiles,
  ToolContext,
  ToolOutput,
} from '../tool.ts';
import { waitForChange } from '../wait-for-change.ts';
import { resolveAfterCrash, applyChange, applySet, type ApplyOutcome } from './apply-change.ts';
import { isAutoApproved, PendingStore } from './pending-store.ts';
import { countStaged, listStaged } from './list-staged.ts';
import { readOnce, stagedFilesOf } from './staged-files.ts';
import { OutcomeRecorder } from './outcome-recorder.ts';
import {
  alreadyDecided,
  buildsOn,
  changeNotFound,
  notASet,
  notAText,
  changedSince,
  setNotApplied,
  stagedElsewhere,
  toolUnavailable,
} from './errors.ts';
import { digestOf, toPendingChange, toPendingChangeDetail, readOutput, type PendingRow } from './rows.ts';

interface PendingChangesOptions {
  readonly store: Store;
  readonly signals: SignalStore;
  readonly tools: Pick<Toolbox, 'find'>;
  readonly clock: Clock;
  /** Aborted when the host stops; it also aborts changes that are being applied. */
  readonly stopping: AbortSignal;
  /** How long a person has to decide; default 7 days. */
  readonly lifetimeMs?: number;
  /** How often the database is polled for decisions on other hosts; default 2 s. */
  readonly pollMs?: number;
}

const dayMs = 24 * 60 * 60 * 1000;
/** How long an approval waits for another host that is applying the same change. */
const maxWaitMs = 30_000;
/** Maximum staged changes of one task or run, because a person has to read them and all of them are stored. */
const maxStaged = 100;

/** Questions of the host itself, with their risk. Approving one applies no tool. */
const questionRisks = { approval_gate: 'low', rerun_step: 'high', [repeatQuestion]: 'high' } as const;
const isQuestion = (tool: string) => Object.hasOwn(questionRisks, tool);

/** Pending changes: staging, approval and application. A decision is stored before anyone is notified. */
export class PendingChanges implements PendingChangeService {
  readonly #store: Store;
  readonly #tools: Pick<Toolbox, 'find'>;
  readonly #clock: Clock;
  readonly #stopping: AbortSignal;
  readonly #pollMs: number;
  readonly #pendingStore: PendingStore;
  readonly #outcomeRecorder: OutcomeRecorder;
  /** What this process is applying, by id. */
  readonly #runningApplications = new Map<string, Promise<ApplyOutcome | undefined>>();
  /** Ends applications that run in this process, by id. */
  readonly #applications = new Map<string, AbortController>();
  /** Who gets what is printed while a change is applied, by id. */
  readonly #outputListeners = new Map<string, OnOutput>();
  #change = Promise.withResolvers<void>();

  constructor(options: PendingChangesOptions) {
    const { store, signals, tools, clock, stopping, lifetimeMs = 7 * dayMs, pollMs = 2000 } = options;
    this.#store = store;
    this.#tools = tools;
    this.#clock = clock;
    this.#stopping = stopping;
    this.#pollMs = pollMs;
    this.#pendingStore = new PendingStore({ store, signals, lifetimeMs });
    this.#outcomeRecorder = new OutcomeRecorder(this.#pendingStore);
  }

  /**
   * Resolves interrupted applications, stores outcomes that could not be stored before, and expires overdue changes.
   * Runs when the host starts, before anything else, and then about every minute.
   */
  async sweep(): Promise<void> {
    for (const row of await this.#pendingStore.listInterrupted())
      if (this.#isAbandoned(row)) await this.#resolveInterrupted(row);
    await this.#expire();
  }

  /** Resolves when all running applications have ended and their outcomes are stored. */
  async whenIdle(): Promise<void> {
    await Promise.allSettled(this.#runningApplications.values());
  }

  async stage(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<PendingChange> {
    return toPendingChange(
      await this.#pendingStore.add(newRow(tool, proposal, context), { maxStaged: maxStaged }),
    );
  }

  stagedFiles(owner: Pick<ToolContext, 'taskId' | 'runId'>): StagedFiles {
    return stagedFilesOf(this.#store, owner);
  }

  async applyNow(tool: ChangeTool, proposal: Proposal, context: ToolContext): Promise<ToolOutput> {
    const earlier = await tool.set?.buildsOn(
      proposal.payload,
      Number.POSITIVE_INFINITY,
      this.stagedFiles(context),
    );
    if (earlier !== undefined) throw buildsOn('This change', earlier);
    const row = await this.#pendingStore.add(newRow(tool, proposal, context), { autoApproved: true });
    const signal = AbortSignal.any([context.signal, this.#stopping]);
    const outcome = await this.#applyOnce(row.id, async () =>
      this.#recordOutcome(row, await applyChange(tool, row, signal, context.onOutput)),
    );
    if (!outcome?.output) throw new Error(`${row.id} was applied without an output`);
    return outcome.output;
  }

  async ask(question: Parameters<PendingChangeService['ask']>[0]): Promise<PendingChange> {
    const { tool, agent, taskId, runId, step, sessionId, intent, summary } = question;
    const owner = {
      task_id: taskId ?? null,
      run_id: runId ?? null,
      step: step ?? null,
      session_id: sessionId ?? null,
    };
    const questionColumns = { tool, agent, ...owner, intent, summary };
    const risk = questionRisks[tool];
    return toPendingChange(
      await this.#pendingStore.add({ ...questionColumns, kind: 'tool_call', risk, payload: 'null' }),
    );
  }

  async findInterrupted(callKey: string): Promise<InterruptedChange> {
    const id = await this.#pendingStore.findByCall(callKey);
    if (id === undefined) return { kind: 'not_begun' };
    const row = await this.#readCurrent(id);
    if (!isAutoApproved(row)) return { kind: 'staged', id, summary: row.summary };
    const output = readOutput(row);
    const isUnknown = (await this.#pendingStore.findReason(id)) === 'may_have_run';
    return output && !isUnknown ? { kind: 'made', output } : { kind: 'unknown' };
  }

  async list(): Promise<PendingChange[]> {
    return await this.#store.read((db) => listStaged(db, this.#store.time()));
  }

  /** Number of changes that `list` returns. */
  async count(): Promise<number> {
    return await this.#store.read((db) => countStaged(db, this.#store.time()));
  }

  /** A change in any state. @throws AgentError not_found */
  async get(id: string): Promise<PendingChangeDetail> {
    const row = await this.#pendingStore.find(id);
    if (!row) throw changeNotFound(id);
    const detail = toPendingChangeDetail(this.#isOverdue(row) ? { ...row, state: 'expired' } : row);
    const content = this.#textOf(row)?.of(JSON.parse(row.payload));
    return { ...detail, ...(content === undefined ? {} : { content }) };
  }

  #textOf(row: PendingRow): ChangeText | undefined {
    const tool = isQuestion(row.tool) ? undefined : this.#tools.find(row.tool);
    return tool?.kind === 'change' ? tool.text : undefined;
  }

  /**
   * Replaces the text of a staged change by a person's. The agent is told when the change is applied.
   * @throws AgentError not_found; invalid; conflict `not_a_text`, `staged_elsewhere`, or as `approve`
   */
  async edit(id: string, content: string, by: string): Promise<{ id: string; edited: true }> {
    for (;;) {
      const row = await this.#readCurrent(id);
      if (row.state !== 'staged') throw await this.#conflictError(row, 'edit', by);
      if (row.endpoint_id !== this.#store.endpointId) throw stagedElsewhere(id, row.endpoint_id);
      const payload = JSON.parse(row.payload) as unknown;
      const text = this.#textOf(row);
      if (text?.of(payload) === undefined) throw notAText(id);
      const changed = await text.replace(payload, content, this.#stopping);
      if (await this.#pendingStore.replaceProposal(row, changed, by)) return { id, edited: true };
    }
  }

  /** @param digest of the change that the person has seen; a change that was edited since is not approved */
  async approve(
    id: string,
    by: string,
    signal: AbortSignal,
    digest?: string,
  ): Promise<{ id: string; applied: true }> {
    const startMs = this.#clock.monotonic();
    for (;;) {
      const change = this.#change.promise;
      const row = await this.#readCurrent(id);
      if (row.state === 'applied') return { id, applied: true };
      if (row.state === 'staged') {
        if (digest !== undefined && digest !== digestOf(row)) {
          await this.#pendingStore.journalRefusal(row, 'approve', by, 'changed');
          throw changedSince(id);
        }
        const outcome = await raceAbort(this.#decideAndApply(row, by), signal);
        if (outcome?.error) throw outcome.error;
      } else if (row.state === 'applying' && this.#clock.monotonic() - startMs < maxWaitMs) {
        // It is being applied, here or on another host: wait for that outcome.
        const localApplication = this.#runningApplications.get(id);
        const outcome = localApplication && (await raceAbort(localApplication, signal));
        if (outcome?.error) throw outcome.error;
        if (!localApplication) await waitForChange(change, this.#pollMs, signal);
      } else throw await this.#conflictError(row, 'approve', by);
    }
  }

  /**
   * Approves staged changes of files together: they are applied in the order that they were staged, or none is.
   * @returns their ids in that order
   * @throws AgentError not_found; conflict `not_a_set`, `base_moved`, `apply_failed`: nothing was applied
   */
  async approveSet(ids: readonly string[], by: string): Promise<readonly string[]> {
    const rows = await Promise.all(ids.map((id) => this.#readCurrent(id)));
    const inOrder = rows.toSorted((one, other) => one.n - other.n).map(({ id }) => id);
    // The answer of the first request may have been lost.
    if (rows.every(({ state }) => state === 'applied')) return inOrder;
    const { set, reasons } = this.#commonSet(rows);
    if (!set) {
      const error = notASet(reasons);
      for (const row of rows) await this.#pendingStore.journalRefusal(row, 'approve', by, error.code);
      throw error;
    }
    const staged = new Map<string, StagedFiles>();
    for (const row of rows) {
      const owner = `${row.task_id} ${row.run_id}`;
      const ofOwner = staged.get(owner) ?? readOnce(this.#stagedWith(row));
      staged.set(owner, ofOwner);
      const earlier = await set.buildsOn(JSON.parse(row.payload), row.n, ofOwner);
      if (earlier !== undefined && !ids.includes(earlier)) throw await this.#buildsOnError(row, earlier, by);
    }
    const outcomes = await this.#runSet(ids, async () => {
      const claimed = await this.#pendingStore.claimSet(ids, by);
      if (!claimed) throw notASet(['One of the changes was decided meanwhile.']);
      return await this.#recordSet(claimed, await applySet(claimed, set, false));
    });
    const refused = outcomes.find(({ error }) => error)?.error;
    if (refused) throw setNotApplied(refused);
    return inOrder;
  }

  /** Runs an application of several changes; meanwhile, none of them counts as abandoned. */
  async #runSet(
    ids: readonly string[],
    run: () => Promise<ReadonlyMap<string, ApplyOutcome>>,
  ): Promise<readonly ApplyOutcome[]> {
    const all = Promise.withResolvers<ReadonlyMap<string, ApplyOutcome>>();
    const applications = ids.map((id) => this.#applyOnce(id, async () => (await all.promise).get(id)));
    run().then(all.resolve, all.reject);
    const [outcomes] = await Promise.all([all.promise, ...applications]);
    return [...outcomes.values()];
  }

  /** Records the outcomes of claimed changes. */
  async #recordSet(
    rows: readonly PendingRow[],
    outcomes: readonly ApplyOutcome[],
  ): Promise<ReadonlyMap<string, ApplyOutcome>> {
    // All of them, also when the database fails: the recorder keeps what it could not store.
    const recorded = await Promise.allSettled(
      rows.map((row, index) => this.#recordOutcome(row, outcomes[index] as ApplyOutcome)),
    );
    const failed = recorded.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
    return new Map(
      recorded.flatMap((one, index) =>
        one.status === 'fulfilled' ? [[rows[index]?.id ?? '', one.value] as const] : [],
      ),
    );
  }

  /** The set that all changes belong to, or why they cannot be applied together. */
  #commonSet(rows: readonly PendingRow[]): { set?: ChangeSet; reasons: string[] } {
    const sets = new Set<ChangeSet>();
    const reasons = rows.flatMap((row) => {
      const tool = isQuestion(row.tool) ? undefined : this.#tools.find(row.tool);
      const set = tool?.kind === 'change' ? tool.set : undefined;
      if (row.state !== 'staged') return [alreadyDecided(row).message];
      if (row.endpoint_id !== this.#store.endpointId)
        return [stagedElsewhere(row.id, row.endpoint_id).message];
      if (!set) return [`${row.id} is no change of a file (${row.tool}): approve it alone.`];
      sets.add(set);
      return [];
    });
    const [set] = sets;
    return { reasons, ...(set && sets.size === 1 && reasons.length === 0 ? { set } : {}) };
  }

  async discard(id: string, by: string, note?: string): Promise<{ id: string; discarded: true }> {
    for (;;) {
      const before = await this.#readCurrent(id);
      if (before.state === 'discarded') return { id, discarded: true };
      if (before.state !== 'staged') throw await this.#conflictError(before, 'discard', by);
      const { decided } = await this.#pendingStore.decideWithoutApplying(
        id,
        'discarded',
        by,
        note === undefined ? {} : { note },
      );
      if (decided) this.#notifyWaiters();
    }
  }

  stopApplying(id: string): boolean {
    const application = this.#applications.get(id);
    application?.abort(new Error('a person stopped it'));
    return application !== undefined;
  }

  async decision(id: string, signal: AbortSignal, onOutput?: OnOutput): Promise<ChangeDecision> {
    if (onOutput) this.#outputListeners.set(id, onOutput);
    try {
      for (;;) {
        signal.throwIfAborted();
        const change = this.#change.promise;
        const decided = await this.#readDecision(id);
        if (decided) return decided;
        await waitForChange(change, this.#pollMs, signal);
      }
    } finally {
      if (onOutput) this.#outputListeners.delete(id);
    }
  }

  async #readDecision(id: string): Promise<ChangeDecision | undefined> {
    try {
      const row = await this.#pendingStore.find(id);
      if (!row) throw changeNotFound(id);
      if (this.#isOverdue(row)) await this.#expire();
      const { state } = row;
      if (state === 'staged' || state === 'applying') return undefined;
      const output = readOutput(row);
      const note = state === 'discarded' ? await this.#pendingStore.findNote(id) : undefined;
      return { state, ...(output ? { output } : {}), ...(note === undefined ? {} : { note }) };
    } catch (error) {
      // The wait may take days and must survive a temporary database failure.
      if (error instanceof StoreError) return undefined;
      throw error;
    }
  }

  /** The current row, after expiring it if it is overdue and resolving it if its application was interrupted. */
  async #readCurrent(id: string): Promise<PendingRow> {
    for (;;) {
      const row = await this.#pendingStore.find(id);
      if (!row) throw changeNotFound(id);
      if (this.#isOverdue(row)) await this.#expire();
      else if (this.#isAbandoned(row)) await this.#resolveInterrupted(row);
      else return row;
    }
  }

  #isOverdue({ state, expires_at }: PendingRow): boolean {
    return state === 'staged' && expires_at <= this.#store.time();
  }

  /** Whether this host, in this or a previous process, left the application of the change unfinished. */
  #isAbandoned({ id, state, applier }: PendingRow): boolean {
    return state === 'applying' && applier === this.#store.endpointId && !this.#runningApplications.has(id);
  }

  /** @returns undefined when another decision came first */
  async #decideAndApply(row: PendingRow, by: string): Promise<ApplyOutcome | undefined> {
    const { id } = row;
    if (isQuestion(row.tool)) {
      const output = { ok: true, output: 'A person approved it.', truncated: false };
      const { decided } = await this.#pendingStore.decideWithoutApplying(id, 'applied', by, { output });
      if (decided) this.#notifyWaiters();
      return undefined;
    }
    // Paths and MCP servers belong to the host that staged the change.
    if (row.endpoint_id !== this.#store.endpointId) {
      const error = stagedElsewhere(id, row.endpoint_id);
      await this.#pendingStore.journalRefusal(row, 'approve', by, error.code);
      throw error;
    }
    const tool = this.#tools.find(row.tool);
    const reason = unavailableReason(tool);
    if (tool?.kind !== 'change' || reason !== undefined) {
      const error = toolUnavailable(id, row.tool, reason ?? 'there is no such tool');
      await this.#pendingStore.journalRefusal(row, 'approve', by, error.code);
      throw error;
    }
    const before = await tool.set?.buildsOn(JSON.parse(row.payload), row.n, this.#stagedWith(row));
    if (before !== undefined) throw await this.#buildsOnError(row, before, by);
    return await this.#applyOnce(id, async () => {
      const { row: claimed, claimed: isOurs } = await this.#pendingStore.claim(row, by);
      if (!isOurs || !claimed) return undefined;
      const stop = new AbortController();
      this.#applications.set(id, stop);
      const outcome = await applyChange(
        tool,
        claimed,
        AbortSignal.any([this.#stopping, stop.signal]),
        (text) => this.#outputListeners.get(id)?.(text),
      ).finally(() => this.#applications.delete(id));
      const earlier =
        outcome.reason === 'base_moved' ? await this.#pendingStore.findEarlier(claimed) : undefined;
      return await this.#recordOutcome(
        claimed,
        earlier === undefined ? outcome : { ...outcome, error: buildsOn(id, earlier) },
      );
    });
  }

  /** The staged changes of files of the same task or run. */
  #stagedWith({ task_id, run_id }: PendingRow): StagedFiles {
    return this.stagedFiles({
      ...(task_id === null ? {} : { taskId: task_id }),
      ...(run_id === null ? {} : { runId: run_id }),
    });
  }

  async #buildsOnError(row: PendingRow, earlier: string, by: string): Promise<Error> {
    const error = buildsOn(row.id, earlier);
    await this.#pendingStore.journalRefusal(row, 'approve', by, error.code);
    return error;
  }

  async #resolveInterrupted(row: PendingRow): Promise<void> {
    if (row.approved_with !== null && (await this.#resumeSet(row.approved_with))) return;
    await this.#applyOnce(row.id, () => this.#findOutcome(row));
  }

  /** Finds out what became of an interrupted application, and records it. */
  async #findOutcome(row: PendingRow): Promise<ApplyOutcome> {
    const tool = isQuestion(row.tool) ? undefined : this.#tools.find(row.tool);
    const unrecordedOutcome = this.#outcomeRecorder.unrecordedOutcome(row.id);
    return await this.#recordOutcome(
      row,
      unrecordedOutcome ?? (await resolveAfterCrash(tool?.kind === 'change' ? tool : undefined, row)),
    );
  }

  /** Applies what a crash left over of a set. @returns false when that cannot be done */
  async #resumeSet(first: string): Promise<boolean> {
    const rows = (await this.#pendingStore.listInterrupted()).filter(
      (row) => row.approved_with === first && this.#isAbandoned(row),
    );
    const sets = new Set(
      rows.map(({ tool: name }) => {
        const tool = this.#tools.find(name);
        return tool?.kind === 'change' ? tool.set : undefined;
      }),
    );
    const [set] = sets;
    if (!set || sets.size > 1 || rows.some(({ id }) => this.#outcomeRecorder.unrecordedOutcome(id)))
      return false;
    await this.#runSet(
      rows.map(({ id }) => id),
      async () => {
        const outcomes = await applySet(rows, set, true);
        if (!outcomes.some(({ error }) => error)) return await this.#recordSet(rows, outcomes);
        // A file is neither what it was nor what it was to be: each change is looked at alone, and none is applied.
        const alone = new Map<string, ApplyOutcome>();
        for (const row of rows) alone.set(row.id, await this.#findOutcome(row));
        return alone;
      },
    );
    return true;
  }

  async #recordOutcome(row: PendingRow, outcome: ApplyOutcome): Promise<ApplyOutcome> {
    // An automatically approved change cannot go back to a person, so it has failed.
    const { error: _, ...withoutError } = outcome;
    const finalOutcome: ApplyOutcome =
      outcome.state === 'staged' && isAutoApproved(row) ? { ...withoutError, state: 'failed' } : outcome;
    await this.#outcomeRecorder.record(row, finalOutcome);
    return finalOutcome;
  }

  /** One application of a change at a time in this process. */
  #applyOnce(id: string, apply: () => Promise<ApplyOutcome | undefined>): Promise<ApplyOutcome | undefined> {
    const runningApplication = this.#runningApplications.get(id);
    if (runningApplication) return runningApplication;
    const started = apply().finally(() => {
      this.#runningApplications.delete(id);
      this.#notifyWaiters();
    });
    this.#runningApplications.set(id, started);
    return started;
  }

  async #expire(): Promise<void> {
    if ((await this.#pendingStore.expire()) > 0) this.#notifyWaiters();
  }

  async #conflictError(row: PendingRow, verb: 'approve' | 'discard' | 'edit', by: string): Promise<Error> {
    const error = alreadyDecided(row);
    await this.#pendingStore.journalRefusal(row, verb, by, error.code);
    return error;
  }

  #notifyWaiters(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers<void>();
  }
}

function unavailableReason(tool: ReturnType<Toolbox['find']>): string | undefined {
  if (tool?.kind === 'read') return 'it changes nothing any more';
  return tool?.unavailable?.();
}

function newRow(tool: ChangeTool, proposal: Proposal, context: ToolContext) {
  if (isQuestion(tool.name)) throw new Error(`a tool may not be called '${tool.name}'`);
  const { kind, intent, summary, path, diff, baseHash, risk, payload } = proposal;
  const { agent, taskId, runId, step, sessionId, callKey } = context;
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
    call_key: callKey ?? null,
    path: path ?? null,
    diff: diff ?? null,
    base_hash: baseHash ?? null,
  };
}
