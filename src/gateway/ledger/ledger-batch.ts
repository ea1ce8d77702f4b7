import type { systemAccounts, Row } from '../store/index.ts';
import { BatchBudgets, type LockedBudgets } from '../budgets/batch-budgets.ts';
import type { BudgetNotice } from '../budgets/notices.ts';
import type { BudgetRow } from '../budgets/window.ts';
import { LedgerError } from './errors.ts';
import {
  type ClaimOutcome,
  type HoldRow,
  noExtras,
  noTokens,
  type Operation,
  type OperationResult,
  toRequestColumns,
} from './operations.ts';
import type { ClaimStatus, RequestRow, ReserveResult, SettleResult, StoredAnswer } from './types.ts';
import { type UsageRow, UsageSums } from '../usage/rollups.ts';

export type AccountSums = Pick<
  Row<'gateway_accounts'>,
  'id' | 'balance' | 'held' | 'allowance' | 'disabled_at' | 'parent_id'
>;
export type KeySums = Pick<
  Row<'gateway_keys'>,
  'id' | 'account_id' | 'cap' | 'spent' | 'held' | 'expires_at' | 'revoked_at' | 'disabled_at' | 'revision'
>;
export type ClaimRow = Row<'gateway_idempotency'>;

/** The rows that the operations of one commit need, locked and read. */
export interface LockedRows {
  readonly accounts: readonly AccountSums[];
  readonly keys: readonly KeySums[];
  /** Open holds. */
  readonly holds: readonly HoldRow[];
  readonly requests: readonly Pick<RequestRow, 'id' | 'charged' | 'overrun'>[];
  readonly claims: readonly ClaimRow[];
  readonly budgets: LockedBudgets;
}

/** The rows to write in one commit; sums are differences. */
export interface RowChanges {
  readonly accounts: Omit<AccountSums, 'disabled_at' | 'parent_id'>[];
  readonly keys: Pick<KeySums, 'id' | 'spent' | 'held'>[];
  readonly budgets: BudgetRow[];
  readonly notices: readonly BudgetNotice[];
  readonly opened: HoldRow[];
  readonly closed: string[];
  readonly requests: RequestRow[];
  readonly transactions: Row<'gateway_transactions'>[];
  readonly entries: Row<'gateway_entries'>[];
  readonly usage: UsageRow[];
  readonly claims: ClaimRow[];
  readonly claimEnds: Pick<ClaimRow, 'account_id' | 'key' | 'request_id' | 'state' | 'answer'>[];
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** How long an idempotency key is stored, in ms. */
export const claimTtlMs = 24 * 60 * 60 * 1000;

const revenueAccount: keyof typeof systemAccounts = 'revenue';
const overrunAccount: keyof typeof systemAccounts = 'house';

/** Applies the operations of one commit in memory, in order: each sees the effects of those before it. */
export class LedgerBatch {
  readonly #lockedRows: LockedRows;
  readonly #accounts: Map<string, Mutable<AccountSums>>;
  readonly #keys: Map<string, Mutable<KeySums>>;
  readonly #holds: Map<string, HoldRow>;
  readonly #requests: Map<string, SettleResult>;
  readonly #claims: Map<string, ClaimRow>;
  readonly #budgets: BatchBudgets;
  readonly #opened = new Map<string, HoldRow>();
  readonly #newClaims = new Map<string, ClaimRow>();
  readonly #usage = new UsageSums();
  readonly #pendingRows: Pick<RowChanges, 'closed' | 'requests' | 'transactions' | 'entries' | 'claimEnds'> =
    {
      closed: [],
      requests: [],
      transactions: [],
      entries: [],
      claimEnds: [],
    };

  constructor(lockedRows: LockedRows) {
    this.#lockedRows = lockedRows;
    this.#budgets = new BatchBudgets(lockedRows.budgets);
    this.#accounts = new Map(lockedRows.accounts.map((row) => [row.id, { ...row }]));
    this.#keys = new Map(lockedRows.keys.map((row) => [row.id, { ...row }]));
    this.#holds = new Map(lockedRows.holds.map((row) => [row.request_id, row]));
    this.#requests = new Map(lockedRows.requests.map((row) => [row.id, row]));
    this.#claims = new Map(lockedRows.claims.map((row) => [claimId(row), row]));
  }

  /** @throws LedgerError that concerns this operation only */
  apply(operation: Operation): OperationResult {
    switch (operation.kind) {
      case 'reserve':
        return this.#reserve(operation);
      case 'finish':
        return this.#finish(operation);
      case 'note':
        return this.#note(operation.request);
      case 'crash':
        return this.#crash(operation.hold.request_id, operation.at);
      case 'undo':
        return this.#undo(operation.hold.request_id);
      case 'beat':
        return { done: true };
    }
  }

  changes(): RowChanges {
    const accounts = this.#lockedRows.accounts.flatMap((before) => {
      const after = this.#accounts.get(before.id) ?? before;
      const { id } = before;
      const balance = after.balance - before.balance;
      const held = after.held - before.held;
      const allowance = after.allowance - before.allowance;
      return balance === 0n && held === 0n && allowance === 0n ? [] : [{ id, balance, held, allowance }];
    });
    const keys = this.#lockedRows.keys.flatMap((before) => {
      const after = this.#keys.get(before.id) ?? before;
      const spent = after.spent - before.spent;
      const held = after.held - before.held;
      return spent === 0n && held === 0n ? [] : [{ id: before.id, spent, held }];
    });
    const opened = [...this.#opened.values()];
    const usage = this.#usage.rows();
    const budgets = this.#budgets.changes();
    const { notices } = this.#budgets;
    const claims = [...this.#newClaims.values()];
    return { accounts, keys, budgets, notices, opened, claims, usage, ...this.#pendingRows };
  }

  #reserve({ hold, bodyHash, keyRevision, isTrial }: Operation & { kind: 'reserve' }): ReserveResult {
    // A repetition after a commit with an unknown outcome.
    if (this.#holds.has(hold.request_id) || this.#requests.has(hold.request_id))
      return { outcome: 'reserved' };
    const key = this.#keys.get(hold.key_id);
    const account = this.#accounts.get(hold.account_id);
    const at = hold.reserved_at;
    if (!account || key?.account_id !== account.id || key.revoked_at !== null)
      return { outcome: 'key_invalid' };
    const isDisabled = key.disabled_at !== null || account.disabled_at !== null;
    if (isDisabled || this.#budgets.isDisabled(account.id)) return { outcome: 'key_invalid' };
    if (key.expires_at !== null && key.expires_at <= at) return { outcome: 'key_invalid' };
    if (keyRevision !== undefined && keyRevision !== key.revision) return { outcome: 'key_changed' };
    const claim = bodyHash === undefined ? undefined : newClaim(hold, bodyHash);
    const found = claim && this.#claims.get(claimId(claim));
    if (claim && found && found.request_id !== hold.request_id && !isExpired(found, at))
      return { outcome: 'idempotency', claim: claimStatusOf(found, claim.body_hash) };
    const balance = account.balance - account.held;
    if (balance < hold.amount) return { outcome: 'insufficient_allowance', balance };
    if (key.cap !== null) {
      const remaining = key.cap - key.spent - key.held;
      if (remaining < hold.amount) return { outcome: 'key_spend_cap_exceeded', remaining };
    }
    const budget = this.#budgets.findExceeded(hold, isTrial);
    if (budget) return { outcome: 'budget_exceeded', budget, balance };
    account.held += hold.amount;
    key.held += hold.amount;
    const opened = this.#budgets.open(hold);
    this.#holds.set(hold.request_id, opened);
    this.#opened.set(hold.request_id, opened);
    if (claim) {
      this.#claims.set(claimId(claim), claim);
      this.#newClaims.set(claimId(claim), claim);
    }
    return { outcome: 'reserved' };
  }

  #finish({ requestId, end, claim }: Operation & { kind: 'finish' }): SettleResult {
    const before = this.#requests.get(requestId);
    if (before) return { charged: before.charged, overrun: before.overrun };
    const hold = this.#holds.get(requestId);
    if (!hold)
      throw new LedgerError(
        'unknown_request',
        `Request ${requestId} has no hold: it must be reserved before it is settled or released.`,
      );
    return this.#endRequest(hold, end, claim);
  }

  #crash(requestId: string, at: string): OperationResult {
    const hold = this.#holds.get(requestId);
    if (!hold) return { done: false };
    const cost = hold.estimate < hold.amount ? hold.estimate : hold.amount;
    const none = { endpoint: null, status: null, outcome: null, reason: null, total_ms: null };
    const parts = { cost_fresh: cost, cost_cache_write: 0n, cost_cache_read: 0n, cost_output: 0n };
    const rest = { ...none, ...parts, ...noExtras, ...noTokens, pricing_identity: null, first_byte_ms: null };
    this.#endRequest(hold, { ended: 'crash', ended_at: at, cost, ...rest }, { state: 'gone' });
    return { done: true };
  }

  #undo(requestId: string): OperationResult {
    const hold = this.#holds.get(requestId);
    if (!hold) return { done: false };
    this.#closeHold(hold, 0n, hold.reserved_at);
    this.#endClaim(hold, { state: 'free' });
    return { done: true };
  }

  #note(request: RequestRow): OperationResult {
    if (this.#holds.has(request.id) || this.#requests.has(request.id)) return { done: false };
    this.#requests.set(request.id, request);
    this.#pendingRows.requests.push(request);
    return { done: true };
  }

  #endRequest(
    hold: HoldRow,
    end: (Operation & { kind: 'finish' })['end'],
    claim: ClaimOutcome,
  ): SettleResult {
    const charged = end.cost < hold.amount ? end.cost : hold.amount;
    const overrun = end.cost - charged;
    this.#closeHold(hold, charged, end.ended_at);
    // A gateway of a version without tags may have placed the hold.
    const request = { ...toRequestColumns(hold), tag: hold.tag ?? '', ...end, charged, overrun };
    const { id } = request;
    this.#pendingRows.requests.push(request);
    this.#usage.add(request);
    this.#requests.set(id, request);
    this.#postEntries(request);
    this.#endClaim(hold, claim);
    return { charged, overrun };
  }

  /** Ends a hold: charges the account and the key, and frees the rest. */
  #closeHold(hold: HoldRow, charged: bigint, at: string): void {
    const account = this.#accounts.get(hold.account_id);
    const key = this.#keys.get(hold.key_id);
    if (!account || !key)
      throw new Error(`the account or the key of request ${hold.request_id} does not exist`);
    account.held -= hold.amount;
    account.balance -= charged;
    account.allowance -= charged < account.allowance ? charged : account.allowance;
    key.held -= hold.amount;
    key.spent += charged;
    this.#budgets.close(hold, charged, at);
    this.#holds.delete(hold.request_id);
    if (!this.#opened.delete(hold.request_id)) this.#pendingRows.closed.push(hold.request_id);
  }

  #postEntries({ id, account_id, cost, charged, overrun, ended, ended_at }: RequestRow): void {
    if (cost === 0n) return;
    const reference = { reference: id, kind: 'settle' };
    const note = ended === 'crash' ? 'crash' : null;
    this.#pendingRows.transactions.push({ ...reference, at: ended_at, note });
    const amounts = { [account_id]: -charged, [revenueAccount]: cost, [overrunAccount]: -overrun };
    for (const [account, amount] of Object.entries(amounts))
      if (amount !== 0n) this.#pendingRows.entries.push({ ...reference, account_id: account, amount });
  }

  #endClaim({ account_id, request_id, idempotency_key: key }: HoldRow, end: ClaimOutcome): void {
    if (key === null) return;
    const answer = end.state === 'done' ? end.answer : null;
    const id = claimId({ account_id, key });
    const newClaimRow = this.#newClaims.get(id);
    // The claim was made in the same commit.
    if (newClaimRow?.request_id === request_id) {
      if (end.state === 'free') this.#newClaims.delete(id);
      else this.#newClaims.set(id, { ...newClaimRow, state: end.state, answer });
    } else this.#pendingRows.claimEnds.push({ account_id, key, request_id, state: end.state, answer });
  }
}

function newClaim(hold: HoldRow, body_hash: string): ClaimRow {
  const { account_id, request_id, idempotency_key: key, reserved_at: claimed_at } = hold;
  return { account_id, key: key ?? '', body_hash, request_id, state: 'open', claimed_at, answer: null };
}

export const claimId = ({ account_id, key }: Pick<ClaimRow, 'account_id' | 'key'>): string =>
  `${account_id} ${key}`;

/** Whether a claim is older than its lifetime. @param at the current time */
export const isExpired = ({ claimed_at }: ClaimRow, at: string): boolean =>
  Date.parse(at) - Date.parse(claimed_at) >= claimTtlMs;

export function claimStatusOf(
  { state, answer, body_hash, request_id }: ClaimRow,
  bodyHash: string,
): ClaimStatus {
  if (body_hash !== bodyHash) return { state: 'conflict' };
  if (state === 'done' && answer !== null)
    return { state: 'done', answer: JSON.parse(answer) as StoredAnswer };
  return state === 'open' ? { state: 'in_progress' } : { state: 'gone', requestId: request_id };
}
