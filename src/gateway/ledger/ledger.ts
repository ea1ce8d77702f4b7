import { type CommitSync, StoreError } from '../../store/index.ts';
import { errorMessage } from '../../util/error-message.ts';
import { type GatewayStore, toStorableText } from '../store/index.ts';
import { Budgets } from '../budgets/budgets.ts';
import type { BudgetNotice } from '../budgets/notices.ts';
import { Accounts } from './accounts.ts';
import { ChangeLog } from './change-log.ts';
import { Keys } from './keys.ts';
import { archiveDays, verifyArchives } from './archive.ts';
import { audit } from './audit.ts';
import { Batcher, type OperationOutcome } from './batcher.ts';
import { claimStatusOf, claimTtlMs, isExpired } from './ledger-batch.ts';
import { createCommitter } from './commit.ts';
import { LedgerError } from './errors.ts';
import { deleteStaleReplicas, findOrphanedHolds, ownReplica } from './heartbeat.ts';
import {
  claimOutcomeFor,
  toRequestColumns,
  toRequestEndRow,
  type HoldRow,
  toHoldRow,
  noTokens,
  type Operation,
  type OperationResult,
} from './operations.ts';
import type { CommitEvent, LedgerState } from '../../tracing/index.ts';
import { readUsage } from '../usage/report.ts';
import { countUncounted } from '../usage/rollups.ts';
import { findRequest, findRequestRecord, listRequests, unknownRequest } from './request-records.ts';
import type { ClaimStatus, Ledger, Reservation, ReserveResult, SettleResult, Settlement } from './types.ts';

export interface LedgerOptions {
  readonly store: GatewayStore;
  /** Called with one sentence when background work fails. */
  readonly onFault?: (message: string) => void;
  /** Called after each transaction. */
  readonly onCommit?: ((event: CommitEvent) => void) | undefined;
  /** Called with each notice of a budget, after the commit that gave it. */
  readonly onBudgetNotice?: (notice: BudgetNotice) => void;
  /** Heartbeat interval, in ms. Other gateways take this one for dead after 30 s without a heartbeat. */
  readonly heartbeatMs?: number;
  /** Interval at which orphaned holds are settled, in ms. */
  readonly recoverMs?: number;
  /** Who changes accounts and keys, as `user@host`, for the log of changes. */
  readonly actor?: string;
}

const maxOperations = 256;
/** Characters of stored answers in one commit. */
const maxWeight = 1024 * 1024;
/** Retries of a commit whose outcome is unknown. The operations are idempotent. */
const maxCommitRetries = 3;
/** Orphaned holds that are settled at once. */
const recoverBatchSize = 500;

/**
 * Whether an operation is acknowledged only when it is on the disk. A hold need not be before its request is sent, only before
 * something of the answer is: until then a crash of the machine costs the caller nothing. The claim of an idempotency key must
 * be, since it allows the request.
 */
const isSyncedFirst = (operation: Operation): boolean =>
  operation.kind !== 'reserve' || operation.bodyHash !== undefined;

/** Runs work again whose outcome is unknown. */
async function retryUnsure<T>(work: () => Promise<T>): Promise<T> {
  let unsureError: unknown;
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof StoreError && error.code === 'storage_unsure') unsureError = error;
      if (unsureError !== error || attempt === maxCommitRetries) throw unsureError ?? error;
    }
  }
}

/** Opens the ledger of a store and settles orphaned holds, such as those of an earlier run on the same file. */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const ledger = new StoredLedger(options);
  try {
    await ledger.start();
  } catch (error) {
    await ledger.close();
    throw error;
  }
  return ledger;
}

type Commit = Awaited<ReturnType<ReturnType<typeof createCommitter>>>;
type FinishOperation = Operation & { readonly kind: 'finish' };
type UnsettledOperation = Operation & { readonly kind: 'finish' | 'undo' };

class StoredLedger implements Ledger {
  readonly #store: GatewayStore;
  readonly #accounts: Accounts;
  readonly #keys: Keys;
  readonly #changeLog: ChangeLog;
  readonly #budgets: Budgets;
  readonly #batcher: Batcher<Operation, OperationResult>;
  readonly #onFault: (message: string) => void;
  readonly #onCommit: (event: CommitEvent) => void;
  readonly #onBudgetNotice: (notice: BudgetNotice) => void;
  readonly #commit: ReturnType<typeof createCommitter>;
  readonly #heartbeatMs: number;
  readonly #recoverMs: number;
  readonly #timers: NodeJS.Timeout[] = [];
  /** Operations that failed and must not be lost, by request id. Retried with every heartbeat. */
  readonly #unsettled = new Map<string, UnsettledOperation>();
  /** Syncs that operations wait for. */
  readonly #syncing = new Set<Promise<void>>();
  /** Open holds of this gateway, by request id. */
  readonly #ownHolds = new Map<string, HoldRow>();
  /** Time of `Date.now()`, which advances while the machine sleeps. */
  #lastHeartbeatAt = 0;
  #closing: Promise<void> | undefined;

  constructor({
    store,
    onFault = () => undefined,
    onCommit = () => undefined,
    onBudgetNotice = () => undefined,
    heartbeatMs = 5000,
    recoverMs = 60_000,
    actor = store.replicaId,
  }: LedgerOptions) {
    this.#store = store;
    this.#changeLog = new ChangeLog(store, actor);
    this.#accounts = new Accounts(store, this.#changeLog);
    this.#keys = new Keys(store, this.#changeLog);
    this.#budgets = new Budgets(store, this.#changeLog);
    this.#onFault = onFault;
    this.#onCommit = onCommit;
    this.#onBudgetNotice = onBudgetNotice;
    this.#heartbeatMs = heartbeatMs;
    this.#recoverMs = recoverMs;
    this.#commit = createCommitter(store.kind);
    this.#batcher = new Batcher({
      commit: (operations) => this.#commitMeasured(operations),
      hasSingleCaller: () => this.#hasSingleCaller(),
      maxOperations,
      maxWeight,
      weigh: (operation) =>
        operation.kind === 'finish' && operation.claim.state === 'done' ? operation.claim.answer.length : 0,
    });
  }

  async start(): Promise<void> {
    await this.#batcher.submit({ kind: 'beat' });
    await this.recoverOrphanedHolds();
    await countUncounted(this.#store);
    this.#schedule(this.#heartbeatMs, async () => {
      await this.#batcher.submit({ kind: 'beat' });
      await this.#retryUnsettled();
    });
    this.#schedule(this.#recoverMs, async () => {
      await this.recoverOrphanedHolds();
      await countUncounted(this.#store);
      await this.#deleteExpiredClaims();
      await deleteStaleReplicas(this.#store);
    });
  }

  async reserve(reservation: Reservation): Promise<ReserveResult> {
    const { requestId, idempotency, keyRevision, isTrial = false } = reservation;
    // A repeated reservation uses the hold that may have been written the first time.
    const earlierHold = this.#ownHolds.get(requestId) ?? this.#unsettled.get(requestId)?.hold;
    const hold = earlierHold ?? toHoldRow(reservation, this.#store.replicaId, this.#store.time());
    this.#unsettled.delete(requestId);
    try {
      const reserved = (await this.#do({
        kind: 'reserve',
        hold,
        bodyHash: idempotency?.bodyHash,
        keyRevision,
        isTrial,
      })) as ReserveResult;
      if (reserved.outcome === 'reserved' && !this.#ownHolds.has(requestId))
        this.#ownHolds.set(requestId, hold);
      return reserved;
    } catch (error) {
      // The request is refused; if the hold was written after all, it is removed later.
      if (error instanceof StoreError && error.code === 'storage_unsure')
        this.#unsettled.set(requestId, { kind: 'undo', hold });
      throw error;
    }
  }

  syncHolds(): Promise<void> {
    return this.#store.sync();
  }

  async settle(requestId: string, settlement: Settlement): Promise<SettleResult> {
    const end = toRequestEndRow(requestId, 'settled', settlement, this.#store.time());
    const claim = claimOutcomeFor(settlement.answer, true);
    return await this.#finish(requestId, end, claim);
  }

  async release(requestId: string, settlement: Omit<Settlement, 'cost' | 'usage'>): Promise<SettleResult> {
    const end = toRequestEndRow(requestId, 'released', settlement, this.#store.time());
    return await this.#finish(requestId, end, claimOutcomeFor(settlement.answer, false));
  }

  recordRefusal(refused: Reservation, settlement: Omit<Settlement, 'cost' | 'usage'>): void {
    const at = this.#store.time();
    const hold = toHoldRow({ ...refused, amount: 0n, estimate: 0n }, this.#store.replicaId, at);
    const columns = toRequestColumns(hold);
    const { id } = columns;
    const end = toRequestEndRow(id, 'refused', settlement, at);
    const request = { ...columns, ...noTokens, ...end, charged: 0n, overrun: 0n };
    this.#do({ kind: 'note', request }).catch((error: unknown) => {
      this.#onFault(`The refused request ${id} could not be recorded: ${errorMessage(error)}`);
    });
  }

  async findClaim(accountId: string, key: string, bodyHash: string): Promise<ClaimStatus | undefined> {
    const row = await this.#store.read((db) =>
      db
        .selectFrom('gateway_idempotency')
        .selectAll()
        .where('account_id', '=', accountId)
        .where('key', '=', toStorableText(key))
        .executeTakeFirst(),
    );
    return row && !isExpired(row, this.#store.time()) ? claimStatusOf(row, bodyHash) : undefined;
  }

  state(): LedgerState {
    return {
      openHolds: this.#ownHolds.size,
      unsettled: this.#unsettled.size,
      queuedOperations: this.#batcher.queued,
    };
  }

  balance: Ledger['balance'] = (accountId) => this.#accounts.balance(accountId);
  createAccount: Ledger['createAccount'] = (name, options) => this.#accounts.create(name, options);
  credit: Ledger['credit'] = (account, amount, note) => this.#accounts.credit(account, amount, note);
  account: Ledger['account'] = (account) => this.#accounts.find(account);
  accounts: Ledger['accounts'] = () => this.#accounts.list();
  usage: Ledger['usage'] = (query, maxLines) => readUsage(this.#store, query, maxLines);
  request: Ledger['request'] = (keyId, requestId) =>
    findRequest(this.#store, keyId, toStorableText(requestId));
  requestRecord: Ledger['requestRecord'] = async (requestId) => {
    const found = await findRequestRecord(this.#store, toStorableText(requestId));
    if (!found) throw unknownRequest(requestId);
    return found;
  };
  requests: Ledger['requests'] = ({ before, ...query }) =>
    listRequests(this.#store, {
      ...query,
      ...(before === undefined ? {} : { before: toStorableText(before) }),
    });
  updateAccount: Ledger['updateAccount'] = (account, changes) => this.#accounts.update(account, changes);
  setAccountDisabled: Ledger['setAccountDisabled'] = (account, isDisabled) =>
    this.#accounts.setDisabled(account, isDisabled);
  createKey: Ledger['createKey'] = (options) => this.#keys.create(options);
  updateKey: Ledger['updateKey'] = (id, changes) => this.#keys.update(id, changes);
  setKeyDisabled: Ledger['setKeyDisabled'] = (id, isDisabled) => this.#keys.setDisabled(id, isDisabled);
  revokeKey: Ledger['revokeKey'] = (id) => this.#keys.revoke(id);
  keys: Ledger['keys'] = (account) => this.#keys.list(account);
  findKey: Ledger['findKey'] = (hash) => this.#keys.findByHash(hash);
  setBudget: Ledger['setBudget'] = (budget) => this.#budgets.set(budget);
  removeBudget: Ledger['removeBudget'] = (id) => this.#budgets.remove(id);
  budgets: Ledger['budgets'] = (account) => this.#budgets.list(account);
  changes: Ledger['changes'] = (accountId, limit) => this.#changeLog.list(accountId, limit);
  audit: Ledger['audit'] = () => audit(this.#store);
  archive: Ledger['archive'] = (options) => archiveDays(this.#store, options);
  verifyArchives: Ledger['verifyArchives'] = (folder) => verifyArchives(this.#store, folder);

  async recoverOrphanedHolds(): Promise<{ settled: number }> {
    let settled = 0;
    for (;;) {
      const holds = await findOrphanedHolds(this.#store, recoverBatchSize);
      const at = this.#store.time();
      const results = await Promise.all(
        holds.map((hold) => this.#do({ kind: 'crash', hold, at }) as Promise<{ done: boolean }>),
      );
      const settledCount = results.filter((result) => result.done).length;
      settled += settledCount;
      // Other gateways may have settled the same holds.
      if (holds.length < recoverBatchSize || settledCount === 0) return { settled };
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  async #shutDown(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#batcher.idle();
    await Promise.allSettled(this.#syncing);
    try {
      await this.#retryUnsettled();
      // Without its row, holds that this gateway leaves open are orphaned at once, and other gateways settle them.
      const { replicaId } = this.#store;
      await this.#store.transaction((tx) =>
        tx.deleteFrom('gateway_replicas').where('id', '=', replicaId).execute(),
      );
    } catch (error) {
      this.#onFault(`The ledger could not record that this gateway stopped: ${errorMessage(error)}`);
    }
  }

  async #finish(
    requestId: string,
    end: FinishOperation['end'],
    claim: FinishOperation['claim'],
  ): Promise<SettleResult> {
    const known = this.#ownHolds.get(requestId) ?? this.#unsettled.get(requestId)?.hold;
    const hold = known ?? (await this.#findHold(requestId));
    const operation: FinishOperation = { kind: 'finish', requestId, hold, end, claim };
    this.#ownHolds.delete(requestId);
    try {
      return (await this.#do(operation)) as SettleResult;
    } catch (error) {
      // Internal errors are retried as well: otherwise the hold would stay open until this gateway stops.
      if (!(error instanceof LedgerError)) this.#unsettled.set(requestId, operation);
      throw error;
    }
  }

  /** Reads a hold that another gateway placed. */
  #findHold(requestId: string): Promise<HoldRow | undefined> {
    return this.#store.read((db) =>
      db.selectFrom('gateway_holds').selectAll().where('request_id', '=', requestId).executeTakeFirst(),
    );
  }

  async #do(operation: Operation): Promise<OperationResult> {
    if (this.#closing)
      throw new StoreError('storage_failed', 'the ledger is closed, because the gateway is stopping');
    return await this.#batcher.submit(operation);
  }

  async #retryUnsettled(): Promise<void> {
    const unsettled = [...this.#unsettled];
    await Promise.all(
      unsettled.map(async ([requestId, operation]) => {
        await this.#batcher.submit(operation).catch((error: unknown) => {
          // A retry cannot succeed.
          if (!(error instanceof LedgerError)) throw error;
          this.#onFault(error.message);
        });
        if (this.#unsettled.get(requestId) === operation) this.#unsettled.delete(requestId);
      }),
    );
  }

  /** Commits the operations. The results of those that must be on the disk first are promises. */
  async #commitMeasured(
    operations: readonly Operation[],
  ): Promise<readonly OperationOutcome<OperationResult>[]> {
    const startedAt = performance.now();
    const report = (isCommitted: boolean) =>
      this.#onCommit({ operations: operations.length, ms: performance.now() - startedAt, isCommitted });
    const isAlone = operations.length === 1 && this.#hasSingleCaller();
    const needsSync = operations.some(isSyncedFirst);
    let commit: Commit;
    try {
      commit = await this.#commitWithRetry(operations, needsSync && isAlone ? 'inline' : 'later');
    } catch (error) {
      report(false);
      throw error;
    }
    const { outcomes, notices } = commit;
    const finish = () => {
      report(true);
      for (const notice of notices) this.#onBudgetNotice(notice);
    };
    if (!needsSync || isAlone) {
      finish();
      return outcomes;
    }
    const synced = this.#syncWithRetry();
    this.#syncing.add(synced);
    void synced
      .then(finish, () => report(false))
      .catch((error: unknown) => this.#onFault(`A notice of a budget failed: ${errorMessage(error)}`))
      .finally(() => this.#syncing.delete(synced));
    return outcomes.map((outcome, index) => {
      const operation = operations[index];
      const isWaiting = operation && isSyncedFirst(operation) && 'value' in outcome;
      return isWaiting ? { value: synced.then(() => outcome.value) } : outcome;
    });
  }

  async #commitWithRetry(operations: readonly Operation[], sync: CommitSync): Promise<Commit> {
    const isHeartbeatDue =
      Date.now() - this.#lastHeartbeatAt > 2 * this.#heartbeatMs ||
      operations.some(({ kind }) => kind === 'beat');
    const replica = isHeartbeatDue ? ownReplica(this.#store.replicaId) : undefined;
    return await retryUnsure(async () => {
      const startedAt = Date.now();
      const commit = await this.#store.batch(
        (connection) => this.#commit(connection, operations, replica),
        sync,
      );
      if (replica) this.#lastHeartbeatAt = startedAt;
      return commit;
    });
  }

  /** Resolves when what was committed is on the disk. Meanwhile the next commit is made. */
  #syncWithRetry(): Promise<void> {
    return retryUnsure(() => this.#store.sync());
  }

  /** Whether at most one request is open, so that waiting for others to share a commit would only cost time. */
  #hasSingleCaller(): boolean {
    return this.#ownHolds.size <= 1;
  }

  async #deleteExpiredClaims(): Promise<void> {
    const before = new Date(this.#store.now().getTime() - claimTtlMs).toISOString();
    await this.#store.transaction((tx) =>
      tx
        .deleteFrom('gateway_idempotency')
        .where('claimed_at', '<=', before)
        .where('state', '<>', 'open')
        .execute(),
    );
  }

  #schedule(ms: number, task: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      task()
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
