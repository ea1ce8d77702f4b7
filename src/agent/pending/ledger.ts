import type { Db, NewAct, Store, Tx } from '../../store/index.ts';
import type { ToolOutput } from '../tool.ts';
import type { Signals } from '../services.ts';
import { tooManyStaged } from './refusals.ts';
import type { PendingRow, PendingState } from './rows.ts';

/** Who decided, on which host, and when. */
interface Claim {
  readonly decided_at: string;
  readonly decided_by: string;
  readonly applier: string;
}

/** How the application of a change ended. */
export interface Settlement {
  /** `staged`: nothing was done, and it may be decided again. */
  readonly state: 'applied' | 'staged' | 'failed';
  /** Of what was done, or why it failed. */
  readonly output?: ToolOutput;
  /** Why it was not applied: a stable code. */
  readonly reason?: string;
  /** Nobody saw how it ended: it was looked up afterwards. */
  readonly recovered?: true;
}

type NewRow = Pick<PendingRow, 'kind' | 'tool' | 'agent' | 'intent' | 'summary' | 'risk' | 'payload'> &
  Partial<PendingRow>;

const blank = {
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
} satisfies Partial<PendingRow>;

interface LedgerOptions {
  readonly store: Store;
  readonly signals: Signals;
  readonly lifetimeMs: number;
}

/**
 * The rows of pending changes and the acts about them, one transaction each. Every move names the state that it moves
 * from, so that of several who decide at once, in one process or in many, one does.
 */
export class PendingLedger {
  readonly #store: Store;
  readonly #signals: Signals;
  readonly #lifetimeMs: number;

  constructor({ store, signals, lifetimeMs }: LedgerOptions) {
    this.#store = store;
    this.#signals = signals;
    this.#lifetimeMs = lifetimeMs;
  }

  /**
   * A row, with who decided on it already where the grants did.
   * @param most of one task or run that may wait for a person at a time
   * @throws AgentError too_many
   */
  async add(
    row: NewRow,
    { autoApproved = false, most }: { readonly autoApproved?: boolean; readonly most?: number } = {},
  ): Promise<PendingRow> {
    return await this.#store.transaction(async (tx) => {
      if (most !== undefined && (await waiting(tx, row)) >= most) throw tooManyStaged(most);
      const n = await this.#store.next(tx, 'pending');
      const now = this.#store.now();
      const full: PendingRow = {
        ...blank,
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
      if (autoApproved) await this.#act(tx, full, { outcome: 'applied', details: { phase: 'begin' } });
      return full;
    });
  }

  async find(id: string): Promise<PendingRow | undefined> {
    return await this.#store.read((db) => one(db, id));
  }

  /**
   * Gives a staged change to this host to apply; one who comes too late finds it in another state.
   * @returns the row as it is then, and whether it was given
   */
  async claim(id: string, by: string): Promise<{ row: PendingRow | undefined; claimed: boolean }> {
    return await this.#store.transaction(async (tx) => {
      const claimed = await this.#move(tx, id, 'staged', { state: 'applying', ...this.#claim(by) });
      return { row: await one(tx, id), claimed };
    });
  }

  /** Ends the application of a change that this host claimed. @returns false where it was ended already */
  async settle(row: PendingRow, { state, output, reason, recovered }: Settlement): Promise<boolean> {
    return await this.#store.transaction(async (tx) => {
      const undone = { applier: null, decided_at: null, decided_by: null };
      const moved = await this.#move(tx, row.id, 'applying', {
        state,
        output: output && state !== 'staged' ? JSON.stringify(output) : null,
        ...(state === 'staged' ? undone : {}),
      });
      if (!moved) return false;
      const details = { phase: 'end', ok: output?.ok ?? false, ...(recovered ? { recovered } : {}) };
      if (state === 'applied') {
        await this.#act(tx, row, { outcome: 'applied', details });
        await this.#signal(tx, 'pending.applied', row);
      } else await this.#act(tx, row, { outcome: 'refused', reason: reason ?? state, details });
      return true;
    });
  }

  /** Decides a staged change without applying anything: a question that is answered, or a change that is not wanted. */
  async decide(
    id: string,
    state: 'applied' | 'discarded',
    by: string,
    more: { output?: ToolOutput; note?: string },
  ) {
    return await this.#store.transaction(async (tx) => {
      const { output, note } = more;
      const decided = await this.#move(tx, id, 'staged', {
        state,
        ...this.#claim(by),
        ...(output ? { output: JSON.stringify(output) } : {}),
      });
      const row = await one(tx, id);
      if (decided && row) {
        await this.#act(tx, row, { outcome: 'applied', ...(note === undefined ? {} : { note }) });
        await this.#signal(tx, `pending.${state}`, row);
      }
      return { row, decided };
    });
  }

  /** Journals a decision that came to nothing. */
  async refuse(row: PendingRow, verb: 'approve' | 'discard', by: string, reason: string): Promise<void> {
    await this.#store.transaction((tx) =>
      this.#store.act(tx, { verb, target: row.id, by, outcome: 'refused', reason }),
    );
  }

  /** Ends what waited too long. @returns how many */
  async expire(): Promise<number> {
    const due = await this.#store.read((db) =>
      db
        .selectFrom('pending')
        .select('id')
        .where('state', '=', 'staged')
        .where('expires_at', '<=', this.#store.time())
        .orderBy('n')
        .limit(expiredAtOnce)
        .execute(),
    );
    if (due.length === 0) return 0;
    return await this.#store.transaction(async (tx) => {
      const decided_at = this.#store.time();
      const expired: string[] = [];
      // Row after row in one order, then the acts: hosts that do so at once wait for each other, and never in a circle.
      for (const { id } of due) {
        const { numUpdatedRows } = await tx
          .updateTable('pending')
          .set({ state: 'expired', decided_at, decided_by: 'host' })
          .where('id', '=', id)
          .where('state', '=', 'staged')
          .where('expires_at', '<=', decided_at)
          .executeTakeFirst();
        if (numUpdatedRows === 1n) expired.push(id);
      }
      for (const target of expired)
        await this.#store.act(tx, { verb: 'expire', target, by: 'host', outcome: 'applied' });
      return expired.length;
    });
  }

  /** What this host was applying when it ended. */
  async interrupted(): Promise<PendingRow[]> {
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

  async #move(tx: Tx, id: string, from: PendingState, to: Partial<PendingRow>): Promise<boolean> {
    let update = tx.updateTable('pending').set(to).where('id', '=', id).where('state', '=', from);
    // Of an application, only the host that claimed it tells the end.
    if (from === 'applying') update = update.where('applier', '=', this.#store.endpointId);
    else update = update.where('expires_at', '>', this.#store.time());
    const { numUpdatedRows } = await update.executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  async #act(tx: Tx, row: PendingRow, act: Pick<NewAct, 'outcome'> & ActWords): Promise<void> {
    const by = row.decided_by ?? 'host';
    const verb = verbOf(row);
    const { kind, tool, path, agent } = row;
    const details = { kind, tool, agent, ...(path === null ? {} : { path }), ...act.details };
    await this.#store.act(tx, { ...act, verb, target: row.id, by, details: JSON.stringify(details) });
  }

  async #signal(tx: Tx, name: string, row: PendingRow): Promise<void> {
    const { id, kind, tool, agent, task_id, run_id, step, decided_by: by } = row;
    const about = Object.entries({ id, kind, tool, agent, task_id, run_id, step, by });
    await this.#signals.emit(tx, name, Object.fromEntries(about.filter(([, value]) => value !== null)));
  }
}

interface ActWords {
  readonly reason?: string;
  readonly note?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Of one transaction. */
const expiredAtOnce = 500;

const verbOf = (row: PendingRow) => {
  if (row.state === 'discarded') return 'discard';
  return isAutoApproved(row) ? 'auto_approve' : 'approve';
};

/** By the grants of its agent, and so by no person. */
export const isAutoApproved = ({ decided_by }: Pick<PendingRow, 'decided_by'>) =>
  decided_by?.startsWith('agent:') ?? false;

const one = (db: Db, id: string) =>
  db.selectFrom('pending').selectAll().where('id', '=', id).executeTakeFirst();

/** How many of the same task or run wait for a person. */
async function waiting(tx: Tx, { task_id = null, run_id = null }: NewRow): Promise<number> {
  if (task_id === null && run_id === null) return 0;
  const staged = tx.selectFrom('pending').where('state', '=', 'staged');
  const { count } = await staged
    .where('task_id', 'is not distinct from', task_id)
    .where('run_id', 'is not distinct from', run_id)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}
