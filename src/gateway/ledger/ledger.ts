import { StoreError } from '../../store/index.ts';
import { errorMessage } from '../../util/error-message.ts';
import { type GatewayStore, keepable } from '../store/index.ts';
import { Accounts } from './accounts.ts';
import { audit } from './audit.ts';
import { Batcher, type Outcome } from './batcher.ts';
import { claimedBy, claimLife, isStale } from './book.ts';
import { committer } from './commit.ts';
import { LedgerError } from './errors.ts';
import { forget, leftBehind, thisReplica } from './heart.ts';
import {
  claimEnd,
  endRow,
  type HoldRow,
  holdRow,
  noTokens,
  type Operation,
  type Result,
} from './operations.ts';
import type { Claimed, Ledger, Reservation, Reserved, Settled, Settlement } from './types.ts';

export interface LedgerOptions {
  readonly store: GatewayStore;
  /** Called with one sentence when background work fails. */
  readonly onFault?: (message: string) => void;
  /** Heartbeat interval, in ms. Other gateways take this one for dead after 30 s without a heartbeat. */
  readonly beatMs?: number;
  /** Interval at which orphaned holds are settled, in ms. */
  readonly recoverMs?: number;
}

const mostOperations = 256;
/** Characters of stored answers in one commit. */
const mostWeight = 1024 * 1024;
/** Retries of a commit whose outcome is unknown. The operations are idempotent. */
const attempts = 3;
/** Orphaned holds that are settled at once. */
const together = 500;

/** Opens the ledger of a store and settles orphaned holds, such as those of an earlier run on the same file. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const ledger = new StoredLedger(options);
  try {
    await ledger.begin();
  } catch (error) {
    await ledger.close();
    throw error;
  }
  return ledger;
}

type Finish = Operation & { readonly kind: 'finish' };
type Owed = Operation & { readonly kind: 'finish' | 'undo' };

class StoredLedger implements Ledger {
  readonly #store: GatewayStore;
  readonly #accounts: Accounts;
  readonly #batcher: Batcher<Operation, Result>;
  readonly #onFault: (message: string) => void;
  readonly #commit: ReturnType<typeof committer>;
  readonly #beatMs: number;
  readonly #recoverMs: number;
  readonly #timers: NodeJS.Timeout[] = [];
  /** Operations that failed and must not be lost, by request id. Retried with every heartbeat. */
  readonly #owed = new Map<string, Owed>();
  /** Open holds of this gateway, by request id. */
  readonly #held = new Map<string, HoldRow>();
  /** Time of `Date.now()`, which advances while the machine sleeps. */
  #beatAt = 0;
  #closing: Promise<void> | undefined;

  constructor({ store, onFault = () => undefined, beatMs = 5000, recoverMs = 60_000 }: LedgerOptions) {
    this.#store = store;
    this.#accounts = new Accounts(store);
    this.#onFault = onFault;
    this.#beatMs = beatMs;
    this.#recoverMs = recoverMs;
    this.#commit = committer(store.kind);
    this.#batcher = new Batcher({
      commit: (operations) => this.#commitSurely(operations),
      isAlone: () => this.#isAlone(),
      mostOperations,
      mostWeight,
      weigh: (operation) =>
        operation.kind === 'finish' && operation.claim.state === 'done' ? operation.claim.answer.length : 0,
    });
  }

  async begin(): Promise<void> {
    await this.#batcher.do({ kind: 'beat' });
    await this.recover();
    this.#every(this.#beatMs, async () => {
      await this.#batcher.do({ kind: 'beat' });
      await this.#payOwed();
    });
    this.#every(this.#recoverMs, async () => {
      await this.recover();
      await this.#forgetClaims();
      await forget(this.#store);
    });
  }

  async reserve(reservation: Reservation): Promise<Reserved> {
    const { requestId, idempotency } = reservation;
    // A repeated reservation uses the hold that may have been written the first time.
    const asked = this.#held.get(requestId) ?? this.#owed.get(requestId)?.hold;
    const hold = asked ?? holdRow(reservation, this.#store.replicaId, this.#store.time());
    this.#owed.delete(requestId);
    try {
      const reserved = (await this.#do({
        kind: 'reserve',
        hold,
        bodyHash: idempotency?.bodyHash,
      })) as Reserved;
      if (reserved.outcome === 'reserved' && !this.#held.has(requestId)) this.#held.set(requestId, hold);
      return reserved;
    } catch (error) {
      // The request is refused; if the hold was written after all, it is removed later.
      if (error instanceof StoreError && error.code === 'storage_unsure')
        this.#owed.set(requestId, { kind: 'undo', hold });
      throw error;
    }
  }

  async settle(requestId: string, settlement: Settlement): Promise<Settled> {
    const end = endRow(requestId, 'settled', settlement, this.#store.time());
    const claim = claimEnd(settlement.answer, true);
    return await this.#finish(requestId, end, claim);
  }

  async release(requestId: string, settlement: Omit<Settlement, 'cost' | 'usage'>): Promise<Settled> {
    const end = endRow(requestId, 'released', settlement, this.#store.time());
    return await this.#finish(requestId, end, claimEnd(settlement.answer, false));
  }

  note(refused: Reservation, settlement: Omit<Settlement, 'cost' | 'usage'>): void {
    const at = this.#store.time();
    const { request_id: id, ...hold } = holdRow(
      { ...refused, amount: 0n, estimate: 0n },
      this.#store.replicaId,
      at,
    );
    const end = endRow(id, 'refused', settlement, at);
    const request = { ...hold, ...noTokens, ...end, id, charged: 0n, overrun: 0n };
    this.#do({ kind: 'note', request }).catch((error: unknown) => {
      this.#onFault(`The refused request ${id} could not be recorded: ${errorMessage(error)}`);
    });
  }

  async claimed(accountId: string, key: string, bodyHash: string): Promise<Claimed | undefined> {
    const row = await this.#store.read((db) =>
      db
        .selectFrom('gateway_idempotency')
        .selectAll()
        .where('account_id', '=', accountId)
        .where('key', '=', keepable(key))
        .executeTakeFirst(),
    );
    return row && !isStale(row, this.#store.time()) ? claimedBy(row, bodyHash) : undefined;
  }

  balance: Ledger['balance'] = (accountId) => this.#accounts.balance(accountId);
  createAccount: Ledger['createAccount'] = (name, options) => this.#accounts.create(name, options);
  credit: Ledger['credit'] = (account, amount, note) => this.#accounts.credit(account, amount, note);
  accounts: Ledger['accounts'] = () => this.#accounts.all();
  createKey: Ledger['createKey'] = (options) => this.#accounts.createKey(options);
  revokeKey: Ledger['revokeKey'] = (id) => this.#accounts.revokeKey(id);
  keys: Ledger['keys'] = (account) => this.#accounts.keys(account);
  findKey: Ledger['findKey'] = (hash) => this.#accounts.findKey(hash);
  audit: Ledger['audit'] = () => audit(this.#store);

  async recover(): Promise<{ settled: number }> {
    let settled = 0;
    for (;;) {
      const holds = await leftBehind(this.#store, together);
      const at = this.#store.time();
      const results = await Promise.all(
        holds.map((hold) => this.#do({ kind: 'crash', hold, at }) as Promise<{ done: boolean }>),
      );
      const done = results.filter((result) => result.done).length;
      settled += done;
      // Other gateways may have settled the same holds.
      if (holds.length < together || done === 0) return { settled };
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#batcher.idle();
    try {
      await this.#payOwed();
      // Without its row, holds that this gateway leaves open are orphaned at once, and other gateways settle them.
      const { replicaId } = this.#store;
      await this.#store.transaction((tx) =>
        tx.deleteFrom('gateway_replicas').where('id', '=', replicaId).execute(),
      );
    } catch (error) {
      this.#onFault(`The ledger could not record that this gateway stopped: ${errorMessage(error)}`);
    }
  }

  async #finish(requestId: string, end: Finish['end'], claim: Finish['claim']): Promise<Settled> {
    const known = this.#held.get(requestId) ?? this.#owed.get(requestId)?.hold;
    const hold = known ?? (await this.#holdOf(requestId));
    const operation: Finish = { kind: 'finish', requestId, hold, end, claim };
    this.#held.delete(requestId);
    try {
      return (await this.#do(operation)) as Settled;
    } catch (error) {
      // Internal errors are retried as well: otherwise the hold would stay open until this gateway stops.
      if (!(error instanceof LedgerError)) this.#owed.set(requestId, operation);
      throw error;
    }
  }

  /** Reads a hold that another gateway placed. */
  #holdOf(requestId: string): Promise<HoldRow | undefined> {
    return this.#store.read((db) =>
      db.selectFrom('gateway_holds').selectAll().where('request_id', '=', requestId).executeTakeFirst(),
    );
  }

  async #do(operation: Operation): Promise<Result> {
    if (this.#closing)
      throw new StoreError('storage_failed', 'the ledger is closed, because the gateway is stopping');
    return await this.#batcher.do(operation);
  }

  async #payOwed(): Promise<void> {
    const owed = [...this.#owed];
    await Promise.all(
      owed.map(async ([requestId, operation]) => {
        await this.#batcher.do(operation).catch((error: unknown) => {
          // A retry cannot succeed.
          if (!(error instanceof LedgerError)) throw error;
          this.#onFault(error.message);
        });
        if (this.#owed.get(requestId) === operation) this.#owed.delete(requestId);
      }),
    );
  }

  async #commitSurely(operations: readonly Operation[]): Promise<readonly Outcome<Result>[]> {
    const beats =
      Date.now() - this.#beatAt > 2 * this.#beatMs || operations.some(({ kind }) => kind === 'beat');
    const replica = beats ? thisReplica(this.#store.replicaId) : undefined;
    let doubt: unknown;
    for (let attempt = 0; ; attempt++) {
      try {
        const began = Date.now();
        const outcomes = await this.#store.batch(
          (connection) => this.#commit(connection, operations, replica),
          operations.length === 1 && this.#isAlone(),
        );
        if (replica) this.#beatAt = began;
        return outcomes;
      } catch (error) {
        if (error instanceof StoreError && error.code === 'storage_unsure') doubt = error;
        if (doubt !== error || attempt === attempts) throw doubt ?? error;
      }
    }
  }

  /** Whether at most one request is open, so that waiting for others to share a commit would only cost time. */
  #isAlone(): boolean {
    return this.#held.size <= 1;
  }

  async #forgetClaims(): Promise<void> {
    const before = new Date(this.#store.now().getTime() - claimLife).toISOString();
    await this.#store.transaction((tx) =>
      tx
        .deleteFrom('gateway_idempotency')
        .where('claimed_at', '<=', before)
        .where('state', '<>', 'open')
        .execute(),
    );
  }

  #every(ms: number, work: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      work()
        .catch((error: unknown) =>
          this.#onFault(`The ledger's periodic maintenance failed: ${errorMessage(error)}`),
        )
        .finally(() => {
          busy = false;
        });
    }, ms);
    timer.unref();
    this.#timers.push(timer);
  }
}
