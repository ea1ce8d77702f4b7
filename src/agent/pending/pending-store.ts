import type { StoreReader, NewAct, Store, Tx } from '../../store/index.ts';
import type { Proposal, ToolOutput } from '../tool.ts';
import { toSingleLine } from '../last-event.ts';
import type { SignalStore } from '../services.ts';
import { tooManyStaged } from './errors.ts';
import type { PendingRow, PendingState } from './rows.ts';

/** Who decided on a change, when, and which host applies it. */
interface Claim {
  readonly decided_at: string;
  readonly decided_by: string;
  readonly applier: string;
}

/** Outcome of applying a change. */
export interface StoredOutcome {
  /** `staged`: nothing was done, and it can be decided again. */
  readonly state: 'applied' | 'staged' | 'failed';
  /** Output of the change, or why it failed. */
  readonly output?: ToolOutput;
  /** Stable code of the reason why it was not applied. */
  readonly reason?: string;
  /** The outcome was determined after a crash. */
  readonly recovered?: true;
}

type NewRow = Pick<PendingRow, 'kind' | 'tool' | 'agent' | 'intent' | 'summary' | 'risk' | 'payload'> &
  Partial<PendingRow>;

const emptyColumns = {
  task_id: null,
  run_id: null,
  step: null,
  session_id: null,
  path: null,
  diff: null,
  base_hash: null,
  output: null,
  applier: null,
  decided_at: null,
  decided_by: null,
  approved_with: null,
  call_key: null,
} satisfies Partial<PendingRow>;

interface PendingStoreOptions {
  readonly store: Store;
  readonly signals: SignalStore;
  readonly lifetimeMs: number;
}

/**
 * Stores pending changes and journals the acts on them, each in one transaction. Every transition names its source
 * state, so that only one of several concurrent decisions succeeds, in one process or in many.
 */
export class PendingStore {
  readonly #store: Store;
  readonly #signals: SignalStore;
  readonly #lifetimeMs: number;

  constructor({ store, signals, lifetimeMs }: PendingStoreOptions) {
    this.#store = store;
    this.#signals = signals;
    this.#lifetimeMs = lifetimeMs;
  }

  /**
   * Inserts a change: staged, or already claimed when the grants approve it automatically.
   * @param maxStaged maximum staged changes of one task or run
   * @throws AgentError too_many
   */
  async add(
    row: NewRow,
    {
      autoApproved = false,
      maxStaged,
    }: { readonly autoApproved?: boolean; readonly maxStaged?: number } = {},
  ): Promise<PendingRow> {
    return await this.#store.transaction(async (tx) => {
      if (maxStaged !== undefined && (await countStaged(tx, row)) >= maxStaged)
        throw tooManyStaged(maxStaged);
      const n = await this.#store.nextNumber(tx, 'pending');
      const now = this.#store.now();
      const full: PendingRow = {
        ...emptyColumns,
        ...row,
        id: `p${n}`,
        n,
        endpoint_id: this.#store.endpointId,
        state: 'staged',
        created_at: now.toISOString(),
        expires_at: new Date(now.getTime() + this.#lifetimeMs).toISOString(),
        ...(autoApproved ? { state: 'applying', ...this.#claim(`agent:${row.agent}`) } : {}),
      };
      await tx.insertInto('pending').values(full).execute();
      if (autoApproved) await this.#journalAct(tx, full, { outcome: 'applied', details: { phase: 'begin' } });
      else await this.#emitSignal(tx, 'pending.staged', full);
      return full;
    });
  }

  async find(id: string): Promise<PendingRow | undefined> {
    return await this.#store.read((db) => findRow(db, id));
  }

  /**
   * Claims a staged change for this host to apply, if it is still what was read.
   * @returns the row after the attempt, and whether the claim succeeded
   */
  async claim(
    { id, payload }: Pick<PendingRow, 'id' | 'payload'>,
    by: string,
  ): Promise<{ row: PendingRow | undefined; claimed: boolean }> {
    return await this.#store.transaction(async (tx) => {
      const before = await findRow(tx, id);
      const claimed =
        before?.payload === payload &&
        (await this.#transition(tx, id, 'staged', { state: 'applying', ...this.#claim(by) }));
      return { row: await findRow(tx, id), claimed };
    });
  }

  /**
   * Claims staged changes for this host to apply as a set.
   * @returns the rows in the order that they were staged; undefined when one of them is no longer staged
   */
  async claimSet(ids: readonly string[], by: string): Promise<readonly PendingRow[] | undefined> {
    return await this.#store
      .transaction(async (tx) => {
        const staged = await tx
          .selectFrom('pending')
          .selectAll()
          .where('id', 'in', [...ids])
          .where('state', '=', 'staged')
          .orderBy('n')
          .execute();
        const [first] = staged;
        if (!first || staged.length < ids.length) return undefined;
        const claim = { state: 'applying' as const, approved_with: first.id, ...this.#claim(by) };
        // Another host may have been faster: then nothing is claimed.
        for (const { id } of staged)
          if (!(await this.#transition(tx, id, 'staged', claim))) throw new LostClaim();
        return staged.map((row) => ({ ...row, ...claim }));
      })
      .catch((error: unknown) => {
        if (error instanceof LostClaim) return undefined;
        throw error;
      });
  }

  /** Replaces what is staged, if it is still what was read. @returns whether it was */
  async replaceProposal(
    { id, payload }: PendingRow,
    { summary, diff, risk, payload: changed }: Pick<Proposal, 'summary' | 'diff' | 'risk' | 'payload'>,
    by: string,
  ): Promise<boolean> {
    return await this.#store.transaction(async (tx) => {
      const row = await tx
        .updateTable('pending')
        .set({ summary, risk, diff: diff ?? null, payload: JSON.stringify(changed) })
        .where('id', '=', id)
        .where('state', '=', 'staged')
        .where('payload', '=', payload)
        .returningAll()
        .executeTakeFirst();
      if (!row) return false;
      await this.#store.appendAct(tx, { verb: 'edit', target: id, by, outcome: 'applied' });
      await this.#emitSignal(tx, 'pending.edited', { ...row, decided_by: by });
      return true;
    });
  }

  /** An earlier staged change of the same file by the same task or run, which a change builds on. */
  async findEarlier({ n, path, base_hash, task_id, run_id }: PendingRow): Promise<string | undefined> {
    if (path === null) return undefined;
    const earlier = await this.#store.read((db) =>
      db
        .selectFrom('pending')
        .select('id')
        .where('state', '=', 'staged')
        .where('path', '=', path)
        // With the same base, they are alternatives.
        .where('base_hash', 'is distinct from', base_hash)
        .where('n', '<', n)
        .where('task_id', 'is not distinct from', task_id)
        .where('run_id', 'is not distinct from', run_id)
        .orderBy('n')
        .executeTakeFirst(),
    );
    return earlier?.id;
  }

  /** Stores the outcome of a change that this host claimed. @returns false when it is already stored */
  async storeOutcome(row: PendingRow, { state, output, reason, recovered }: StoredOutcome): Promise<boolean> {
    return await this.#store.transaction(async (tx) => {
      const cleared = { applier: null, decided_at: null, decided_by: null, approved_with: null };
      const isMoved = await this.#transition(tx, row.id, 'applying', {
        state,
        output: output && state !== 'staged' ? JSON.stringify(output) : null,
        ...(state === 'staged' ? cleared : {}),
      });
      if (!isMoved) return false;
      const details = { phase: 'end', ok: output?.ok ?? false, ...(recovered ? { recovered } : {}) };
      if (state === 'applied') {
        await this.#journalAct(tx, row, { outcome: 'applied', details });
        await this.#emitSignal(tx, 'pending.applied', row);
      } else await this.#journalAct(tx, row, { outcome: 'refused', reason: reason ?? state, details });
      if (state === 'failed') await this.#emitSignal(tx, 'pending.failed', row);
      return true;
    });
  }

  /** Decides a staged change without applying a tool: answers a question, or discards a change. */
  async decideWithoutApplying(
    id: string,
    state: 'applied' | 'discarded',
    by: string,
    more: { output?: ToolOutput; note?: string },
  ) {
    return await this.#store.transaction(async (tx) => {
      const { output, note } = more;
      const decided = await this.#transition(tx, id, 'staged', {
        state,
        ...this.#claim(by),
        ...(output ? { output: JSON.stringify(output) } : {}),
      });
      const row = await findRow(tx, id);
      if (decided && row) {
        await this.#journalAct(tx, row, { outcome: 'applied', ...(note === undefined ? {} : { note }) });
        await this.#emitSignal(tx, `pending.${state}`, row);
      }
      return { row, decided };
    });
  }

  /** What the person wrote who discarded a change; the journal has it. */
  async findNote(id: string): Promise<string | undefined> {
    const act = await this.#store.read((db) =>
      db
        .selectFrom('acts')
        .select('note')
        .where('target', '=', id)
        .where('verb', '=', 'discard')
        .where('outcome', '=', 'applied')
        .executeTakeFirst(),
    );
    return act?.note ?? undefined;
  }

  /** Id of the change that a call began to make. */
  async findByCall(callKey: string): Promise<string | undefined> {
    const row = await this.#store.read((db) =>
      db
        .selectFrom('pending')
        .select('id')
        .where('call_key', '=', callKey)
        .orderBy('n', 'desc')
        .limit(1)
        .executeTakeFirst(),
    );
    return row?.id;
  }

  /** Reason of the last act on a change. */
  async findReason(id: string): Promise<string | undefined> {
    const act = await this.#store.read((db) =>
      db
        .selectFrom('acts')
        .select('reason')
        .where('target', '=', id)
        .orderBy('seq', 'desc')
        .limit(1)
        .executeTakeFirst(),
    );
    return act?.reason ?? undefined;
  }

  /** Journals a refused decision. */
  async journalRefusal(
    row: PendingRow,
    verb: 'approve' | 'discard' | 'edit',
    by: string,
    reason: string,
  ): Promise<void> {
    await this.#store.transaction((tx) =>
      this.#store.appendAct(tx, { verb, target: row.id, by, outcome: 'refused', reason }),
    );
  }

  /** Expires overdue changes. @returns how many */
  async expire(): Promise<number> {
    const overdue = await this.#store.read((db) =>
      db
        .selectFrom('pending')
        .select('id')
        .where('state', '=', 'staged')
        .where('expires_at', '<=', this.#store.time())
        .orderBy('n')
        .limit(maxExpiredPerTransaction)
        .execute(),
    );
    if (overdue.length === 0) return 0;
    return await this.#store.transaction(async (tx) => {
      const decided_at = this.#store.time();
      const expired: PendingRow[] = [];
      // Rows in a fixed order, then acts, so that hosts that do this at the same time cannot deadlock.
      for (const { id } of overdue) {
        const row = await tx
          .updateTable('pending')
          .set({ state: 'expired', decided_at, decided_by: 'host' })
          .where('id', '=', id)
          .where('state', '=', 'staged')
          .where('expires_at', '<=', decided_at)
          .returningAll()
          .executeTakeFirst();
        if (row) expired.push(row);
      }
      for (const row of expired) {
        await this.#store.appendAct(tx, { verb: 'expire', target: row.id, by: 'host', outcome: 'applied' });
        await this.#emitSignal(tx, 'pending.expired', row);
      }
      return expired.length;
    });
  }

  /** Changes that this host was applying when it ended. */
  async listInterrupted(): Promise<PendingRow[]> {
    return await this.#store.read((db) =>
      db
        .selectFrom('pending')
        .selectAll()
        .where('state', '=', 'applying')
        .where('applier', '=', this.#store.endpointId)
        .orderBy('n')
        .execute(),
    );
  }

  #claim(by: string): Claim {
    return { decided_at: this.#store.time(), decided_by: by, applier: this.#store.endpointId };
  }

  async #transition(tx: Tx, id: string, from: PendingState, to: Partial<PendingRow>): Promise<boolean> {
    let update = tx.updateTable('pending').set(to).where('id', '=', id).where('state', '=', from);
    // Only the host that claimed a change may store its outcome.
    if (from === 'applying') update = update.where('applier', '=', this.#store.endpointId);
    else update = update.where('expires_at', '>', this.#store.time());
    const { numUpdatedRows } = await update.executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  async #journalAct(tx: Tx, row: PendingRow, act: Pick<NewAct, 'outcome'> & ActDetails): Promise<void> {
    const by = row.decided_by ?? 'host';
    const verb = decisionVerb(row);
    const { kind, tool, path, agent } = row;
    const details = { kind, tool, agent, ...(path === null ? {} : { path }), ...act.details };
    await this.#store.appendAct(tx, { ...act, verb, target: row.id, by, details: JSON.stringify(details) });
  }

  async #emitSignal(tx: Tx, name: string, row: PendingRow): Promise<void> {
    const { id, kind, tool, agent, risk, task_id, run_id, step, decided_by: by } = row;
    const summary = toSingleLine(row.summary, maxSummaryLength);
    const signalData = Object.entries({ id, kind, tool, agent, summary, risk, task_id, run_id, step, by });
    await this.#signals.emit(tx, name, Object.fromEntries(signalData.filter(([, value]) => value !== null)));
  }
}

/** A change of a set was decided meanwhile. */
class LostClaim extends Error {}

interface ActDetails {
  readonly reason?: string;
  readonly note?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Characters of a summary in a signal. */
const maxSummaryLength = 200;

/** Changes that expire in one transaction. */
const maxExpiredPerTransaction = 500;

const decisionVerb = (row: PendingRow) => {
  if (row.state === 'discarded') return 'discard';
  return isAutoApproved(row) ? 'auto_approve' : 'approve';
};

/** Whether the grants of the agent approved the change, not a person. */
export const isAutoApproved = ({ decided_by }: Pick<PendingRow, 'decided_by'>) =>
  decided_by?.startsWith('agent:') ?? false;

const findRow = (db: StoreReader, id: string) =>
  db.selectFrom('pending').selectAll().where('id', '=', id).executeTakeFirst();

/** Number of staged changes of the same task or run. */
async function countStaged(tx: Tx, { task_id = null, run_id = null }: NewRow): Promise<number> {
  if (task_id === null && run_id === null) return 0;
  const staged = tx.selectFrom('pending').where('state', '=', 'staged');
  const { count } = await staged
    .where('task_id', 'is not distinct from', task_id)
    .where('run_id', 'is not distinct from', run_id)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}
