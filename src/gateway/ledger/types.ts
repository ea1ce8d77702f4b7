import type { LedgerState } from '../../tracing/index.ts';
import type { Budget, NewBudget } from '../budgets/types.ts';
import type { Cost, ReceiptReason, Usage } from '../../wires/core/types.ts';
import type { Row } from '../store/index.ts';
import type { ArchivedDay, verifyArchives } from './archive.ts';
import type { UsageLine, UsageQuery } from '../usage/report.ts';

/** An amount of money in nanodollars (1e-9 USD). */
export type Nano = bigint;

/** A request that ended. */
export type RequestRow = Row<'gateway_requests'>;

/** A request as an operator sees it: its hold while it runs, its row when it ended, and what it moved. */
export interface RequestRecord {
  readonly hold: Row<'gateway_holds'> | undefined;
  readonly row: RequestRow | undefined;
  readonly entries: readonly LedgerEntry[];
}

/** One entry of a transaction. */
export interface LedgerEntry {
  readonly at: string;
  /** `settle`, for requests. */
  readonly kind: string;
  readonly accountId: string;
  /** Positive: added to the account. */
  readonly amount: Nano;
}

/** Which requests to list. */
export interface RequestQuery {
  readonly accountId?: string | undefined;
  readonly keyId?: string | undefined;
  /** Only those that failed, were cut off, refused, or whose gateway died. */
  readonly hasFailed?: boolean | undefined;
  /** Only those that ended then or later: RFC 3339 in UTC. */
  readonly since?: string | undefined;
  /** The id of a request: only those before it. */
  readonly before?: string | undefined;
  readonly limit: number;
}

export interface Reservation {
  readonly requestId: string;
  readonly accountId: string;
  readonly keyId: string;
  /** The maximum cost of the request; this amount is held. */
  readonly amount: Nano;
  /** The probable cost: charged when the gateway dies before it settles the request. */
  readonly estimate: Nano;
  readonly requestedModel: string;
  readonly effectiveModel: string;
  readonly provider: string;
  readonly wire: string;
  readonly stream: boolean;
  readonly byok: boolean;
  /** The end user; undefined: the request names none. */
  readonly tag?: string;
  /** The revision of the key that the request was checked against; undefined: any. */
  readonly keyRevision?: bigint;
  /** A smaller amount is tried where this one is refused, so a budget that refuses it gives no notice. */
  readonly isTrial?: boolean;
  /** Claims the idempotency key in the same transaction. */
  readonly idempotency?: { readonly key: string; readonly bodyHash: string };
}

export type ReserveResult =
  | { readonly outcome: 'reserved' }
  /** The balance cannot cover it. */
  | { readonly outcome: 'insufficient_allowance'; readonly balance: Nano }
  | { readonly outcome: 'key_spend_cap_exceeded'; readonly remaining: Nano }
  /** A budget of the key, its account or an account above cannot cover it. */
  | { readonly outcome: 'budget_exceeded'; readonly budget: Budget; readonly balance: Nano }
  /** The key was revoked or disabled or expired after it was looked up. */
  | { readonly outcome: 'key_invalid' }
  /** The key's settings were changed after it was looked up. */
  | { readonly outcome: 'key_changed' }
  | { readonly outcome: 'idempotency'; readonly claim: ClaimStatus };

/** The state of the request that first used an idempotency key. */
export type ClaimStatus =
  | { readonly state: 'in_progress' }
  /** The key was used with another body. */
  | { readonly state: 'conflict' }
  | { readonly state: 'done'; readonly answer: StoredAnswer }
  /**
   * The request ended, but its answer is not available: it was settled without an answer, its gateway died, or the answer
   * is longer than 4 MiB. It is not repeated, because it was charged. (A request that is released without an answer frees
   * the key.)
   */
  | { readonly state: 'gone'; readonly requestId: string };

/** A stored answer, returned to later requests with the same idempotency key. */
export interface StoredAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What the receipt of a request has besides its sums. Stored as JSON. */
export interface RequestDetails {
  /** Undefined: the default one. */
  readonly tier?: string;
  /** What was billed at a price of its own, as it cost. */
  readonly lines?: readonly { readonly item: string; readonly quantity: number; readonly cost: number }[];
  /** The attempts of a hedged request, in the order in which they began. */
  readonly attempts?: readonly RecordedAttempt[];
}

export interface RecordedAttempt {
  readonly provider: string;
  readonly outcome: 'answered' | 'failed' | 'aborted';
  /** Nanodollars, as it cost. */
  readonly cost: number;
}

/** The result of a request. */
export interface Settlement {
  /** Computed from price and usage; zero with the caller's own credential. */
  readonly cost: Cost;
  readonly usage: Usage | undefined;
  readonly effectiveModel: string;
  readonly provider: string;
  readonly reason: ReceiptReason;
  readonly endpoint: string;
  readonly status: number;
  readonly outcome: 'completed' | 'failed' | 'client_gone' | 'cut';
  readonly pricingIdentity: string | undefined;
  /** Measured from the request's arrival. */
  readonly totalMs: number;
  readonly firstByteMs: number | undefined;
  /** Stored for the idempotency key, if the request has one. */
  readonly answer?: StoredAnswer;
  /** Set where the request was hedged. */
  readonly attempts?: readonly RecordedAttempt[];
}

export interface SettleResult {
  /** What the caller paid: the cost, but at most the held amount. */
  readonly charged: Nano;
  /** The cost above the held amount, which the operator pays. */
  readonly overrun: Nano;
}

export interface Balance {
  /** The posted balance minus the held amounts. */
  readonly remaining: Nano;
  /** The total that was ever included with the account. */
  readonly included: Nano;
  /** What remains of the included amount; it is spent before credits. */
  readonly allowanceRemaining: Nano;
  readonly creditsRemaining: Nano;
}

export interface AccountRow {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  /** Set while the account is disabled. */
  readonly disabledAt: string | undefined;
  /** The account above this one. */
  readonly parentId: string | undefined;
  readonly balance: Balance;
  readonly held: Nano;
}

export interface KeyRow {
  readonly id: string;
  readonly accountId: string;
  readonly label: string | undefined;
  readonly last4: string;
  readonly cap: Nano | undefined;
  readonly spent: Nano;
  readonly held: Nano;
  /** Ids of the models that the key may use; undefined: all. */
  readonly models: readonly string[] | undefined;
  readonly createdAt: string;
  readonly expiresAt: string | undefined;
  readonly revokedAt: string | undefined;
  /** Set while the key is disabled; `findKey` also sets it while its account is. */
  readonly disabledAt: string | undefined;
  /** The number of changes of the key. */
  readonly revision: bigint;
  /** The key's own limits; undefined: those of the configuration. */
  readonly concurrency: number | undefined;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
}

/** A key as it is shown to operators. */
export type ShownKey = Omit<KeyRow, 'revision'>;

/** Settings of a key to change; null removes one, undefined keeps it. */
export interface KeyChanges {
  readonly label?: string | null;
  readonly cap?: Nano | null;
  readonly expiresAt?: string | null;
  /** Ids of the models that the key may use; null: all. */
  readonly models?: readonly string[] | null;
  /** Limits; null: those of the configuration. */
  readonly concurrency?: number | null;
  readonly requestsPerMinute?: number | null;
  readonly tokensPerMinute?: number | null;
}

export interface NewKey extends KeyChanges {
  /** Id or name. */
  readonly account: string;
}

export interface AccountChanges {
  readonly name?: string;
  /** Id or name of the account above, whose budgets also limit this one; null: none. */
  readonly parent?: string | null;
}

/** An entry of the log of changes. */
export interface ChangeRow {
  readonly id: string;
  readonly at: string;
  /** Who made the change, as `user@host`. */
  readonly actor: string;
  /** Undefined for changes of the gateway itself. */
  readonly accountId: string | undefined;
  /** The id of what was changed. */
  readonly subject: string;
  /** Such as `key update`. */
  readonly action: string;
  readonly before: Readonly<Record<string, unknown>> | undefined;
  readonly after: Readonly<Record<string, unknown>> | undefined;
}

export interface AuditReport {
  readonly ok: boolean;
  readonly accounts: number;
  readonly transactions: number;
  readonly entries: number;
  readonly openHolds: number;
  /** One sentence for each fault; it names the account, the transaction or the request. */
  readonly faults: readonly string[];
}

/**
 * The ledger: every movement of money. A change is durable when its method resolves. `reserve`, `settle` and `release` of
 * concurrent requests share commits. A request is settled or released once: a second call changes nothing and returns the
 * first result.
 */
export interface Ledger {
  /**
   * Holds the maximum cost of a request. The hold survives a crash of this process when this resolves; on SQLite, that of the
   * machine after `syncHolds` or the next settled request.
   */
  reserve(reservation: Reservation): Promise<ReserveResult>;
  /** Makes the holds durable, before the first part of an answer is sent. Rejects with `StoreError` `storage_unsure`. */
  syncHolds(): Promise<void>;
  /** Charges a request and ends its hold. A repeated call returns the first result. */
  settle(requestId: string, settlement: Settlement): Promise<SettleResult>;
  /** Returns the whole hold and records the request with cost zero. A settled request stays settled. */
  release(requestId: string, settlement: Omit<Settlement, 'cost' | 'usage'>): Promise<SettleResult>;
  /** Records a request that was refused before a hold was placed. Runs in the background. */
  recordRefusal(refused: Reservation, settlement: Omit<Settlement, 'cost' | 'usage'>): void;
  /** Looks up an idempotency key, before any other check of the request. */
  findClaim(accountId: string, key: string, bodyHash: string): Promise<ClaimStatus | undefined>;
  balance(accountId: string): Promise<Balance>;

  createAccount(
    name: string,
    options: { credit?: Nano; included?: Nano; parent?: string | null },
  ): Promise<AccountRow>;
  /** Adds credits. A negative amount corrects a mistake; it cannot exceed the free balance. */
  credit(account: string, amount: Nano, note?: string): Promise<AccountRow>;
  accounts(): Promise<AccountRow[]>;
  /** @param account id or name @throws LedgerError */
  account(account: string): Promise<AccountRow>;
  updateAccount(account: string, changes: AccountChanges): Promise<AccountRow>;
  /** While an account is disabled, all its keys are refused. */
  setAccountDisabled(account: string, isDisabled: boolean): Promise<AccountRow>;
  createKey(
    options: NewKey,
  ): Promise<{ row: KeyRow /** Returned only here: the database holds its hash. */; secret: string }>;
  updateKey(id: string, changes: KeyChanges): Promise<KeyRow>;
  /** While a key is disabled, it is refused like an unknown one. */
  setKeyDisabled(id: string, isDisabled: boolean): Promise<KeyRow>;
  revokeKey(id: string): Promise<KeyRow>;
  keys(account?: string): Promise<KeyRow[]>;
  /** Finds a key by the SHA-256 of its secret (hex). Revoked, disabled and expired keys are found too. */
  findKey(secretHash: string): Promise<KeyRow | undefined>;

  /** Adds up usage. @returns undefined when the report has more lines than `maxLines` */
  usage(query: UsageQuery, maxLines?: number): Promise<readonly UsageLine[] | undefined>;
  /**
   * Finds a key's request.
   * @returns undefined when the key sent no request with this id, or one that was refused before its price was known
   */
  request(keyId: string, requestId: string): Promise<RequestRow | 'running' | undefined>;
  /** Finds a request of any key. @throws LedgerError */
  requestRecord(requestId: string): Promise<RequestRecord>;
  /** Requests that ended, the newest first. @throws LedgerError where `before` names no request */
  requests(query: RequestQuery): Promise<RequestRow[]>;
  /** Sets the budget of a key or an account for a period. It counts requests that are sent from then on. */
  setBudget(budget: NewBudget): Promise<Budget>;
  removeBudget(id: string): Promise<Budget>;
  budgets(account?: string): Promise<Budget[]>;
  /** Changes of accounts and keys, the newest first. @param accountId undefined: of all accounts */
  changes(accountId: string | undefined, limit: number): Promise<ChangeRow[]>;

  audit(): Promise<AuditReport>;
  /** See `archiveDays`. @throws LedgerError */
  archive(options: {
    before: string;
    folder: string;
    onDay?: (day: ArchivedDay) => void;
  }): Promise<ArchivedDay[]>;
  /** See `verifyArchives`. */
  verifyArchives(folder: string): ReturnType<typeof verifyArchives>;
  state(): LedgerState;
  /**
   * Settles orphaned holds: those of gateways that died. They are charged by estimate. Each gateway writes a heartbeat
   * every few seconds, and runs this itself every minute.
   */
  recoverOrphanedHolds(): Promise<{ readonly settled: number }>;
  /** Resolves when every pending operation is durable. */
  close(): Promise<void>;
}
