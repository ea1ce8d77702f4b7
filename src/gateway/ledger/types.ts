import type { Cost, ReceiptReason, Usage } from '../../wires/core/types.ts';

/** Money as it is kept: nanodollars. */
export type Nano = bigint;

export interface Reservation {
  readonly requestId: string;
  readonly accountId: string;
  readonly keyId: string;
  /** The most that the request can cost. */
  readonly amount: Nano;
  /** What it probably costs: settled where the gateway died before it knew. */
  readonly estimate: Nano;
  readonly requestedModel: string;
  readonly effectiveModel: string;
  readonly provider: string;
  readonly wire: string;
  readonly stream: boolean;
  readonly byok: boolean;
  /** Claims the key before anything has an effect. */
  readonly idempotency?: { readonly key: string; readonly bodyHash: string };
}

export type Reserved =
  | { readonly outcome: 'reserved' }
  /** The balance cannot cover it. */
  | { readonly outcome: 'insufficient_allowance'; readonly balance: Nano }
  | { readonly outcome: 'key_spend_cap_exceeded'; readonly remaining: Nano }
  /** The key was revoked or ran out since it was looked up. */
  | { readonly outcome: 'key_invalid' }
  | { readonly outcome: 'idempotency'; readonly found: Claimed };

/** What became of the request that first used an idempotency key. */
export type Claimed =
  | { readonly state: 'in_progress' }
  /** The same key with another body. */
  | { readonly state: 'conflict' }
  | { readonly state: 'done'; readonly answer: StoredAnswer }
  /**
   * It is over, and its answer cannot be given again: it was settled without one, its gateway died, or the answer is
   * longer than 4 MiB. Not done once more, because it was paid for. (Released without an answer, the key is free again.)
   */
  | { readonly state: 'gone'; readonly requestId: string };

/** An answer to be given again. */
export interface StoredAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a request came to. */
export interface Settlement {
  /** Of `price` and `usage`; zero with the caller's own credential. */
  readonly cost: Cost;
  readonly usage: Usage | undefined;
  readonly effectiveModel: string;
  readonly provider: string;
  readonly reason: ReceiptReason;
  readonly endpoint: string;
  readonly status: number;
  readonly outcome: 'completed' | 'failed' | 'client_gone' | 'cut';
  readonly pricingIdentity: string | undefined;
  /** From the request's arrival, in ms. */
  readonly totalMs: number;
  readonly firstByteMs: number | undefined;
  /** Kept for the idempotency key, where the request has one. */
  readonly answer?: StoredAnswer;
}

export interface Settled {
  /** What the caller paid: the cost, or the reservation where the cost is more. */
  readonly charged: Nano;
  /** What the house paid: cost above the reservation. */
  readonly overrun: Nano;
}

export interface Balance {
  /** Posted less what is held. */
  readonly remaining: Nano;
  /** All that was ever given with the account. */
  readonly included: Nano;
  /** Of the included what is left; it is spent first. */
  readonly allowanceRemaining: Nano;
  readonly creditsRemaining: Nano;
}

export interface AccountRow {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
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
  /** Ids of the models that it may use; undefined: all. */
  readonly models: readonly string[] | undefined;
  readonly createdAt: string;
  readonly expiresAt: string | undefined;
  readonly revokedAt: string | undefined;
}

export interface Audit {
  readonly ok: boolean;
  readonly accounts: number;
  readonly transactions: number;
  readonly entries: number;
  readonly openHolds: number;
  /** Each a sentence that names the account, the transaction or the request. */
  readonly faults: readonly string[];
}

/**
 * Every move of money. What a method promises is on the disk when it resolves. `reserve`, `settle` and `release` of many
 * requests share commits. Nothing is settled or released twice: the second time changes nothing and says what was.
 */
export interface Ledger {
  reserve(reservation: Reservation): Promise<Reserved>;
  /** Once; with what the first time came to when it is repeated. */
  settle(requestId: string, settlement: Settlement): Promise<Settled>;
  /** Nothing was used: the hold goes back whole; the request is recorded with cost zero. What is settled stays so. */
  release(requestId: string, settlement: Omit<Settlement, 'cost' | 'usage'>): Promise<Settled>;
  /** What was refused before any money was held, for the record; nobody waits for it. */
  note(refused: Reservation, settlement: Omit<Settlement, 'cost' | 'usage'>): void;
  /** Looks for an idempotency key before a request is judged otherwise. */
  claimed(accountId: string, key: string, bodyHash: string): Promise<Claimed | undefined>;
  balance(accountId: string): Promise<Balance>;

  createAccount(name: string, options: { credit?: Nano; included?: Nano }): Promise<AccountRow>;
  /** May be negative to correct a mistake, but not below what is there. */
  credit(account: string, amount: Nano, note?: string): Promise<AccountRow>;
  accounts(): Promise<AccountRow[]>;
  createKey(options: {
    account: string;
    label?: string;
    cap?: Nano;
    expiresAt?: string;
    models?: readonly string[];
  }): Promise<{ row: KeyRow /** Once; only its hash is kept. */; secret: string }>;
  revokeKey(id: string): Promise<KeyRow>;
  keys(account?: string): Promise<KeyRow[]>;
  /** The key of a secret's SHA-256 (hex), also a revoked or expired one. */
  findKey(hash: string): Promise<KeyRow | undefined>;

  audit(): Promise<Audit>;
  /**
   * Settles what gateways left behind that died in the middle: by estimate where it was dispatched. A gateway says that it
   * lives every few seconds; it also does this itself every minute.
   */
  recover(): Promise<{ readonly settled: number }>;
  /** When all that was asked for is on the disk. */
  close(): Promise<void>;
}
