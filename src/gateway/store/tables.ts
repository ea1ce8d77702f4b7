/** `?`: may be null. Whole numbers are read as `bigint` in both databases. */
type Kind = 'text' | 'text?' | 'integer' | 'integer?';
export type Columns = Readonly<Record<string, Kind>>;

/** A row of a table, as it is read and written. */
export type RowOf<C extends Columns> = {
  [K in keyof C]: C[K] extends 'text'
    ? string
    : C[K] extends 'text?'
      ? string | null
      : C[K] extends 'integer'
        ? bigint
        : bigint | null;
};

const asked = {
  account_id: 'text',
  key_id: 'text',
  requested_model: 'text',
  effective_model: 'text',
  provider: 'text',
  wire: 'text',
  stream: 'integer',
  byok: 'integer',
  amount: 'integer',
  estimate: 'integer',
  idempotency_key: 'text?',
  replica_id: 'text',
  reserved_at: 'text',
} as const satisfies Columns;

/** The columns of the ledger's tables. Money is nanodollars; times are RFC 3339 in UTC with milliseconds. */
export const columns = {
  /** Only those of users carry sums: the others would be a row that every request waits for. */
  gateway_accounts: {
    id: 'text',
    /** `user`, `revenue`, `house` (pays overruns) or `funding` (where credit comes from). */
    kind: 'text',
    name: 'text',
    /** All entries of the account. */
    balance: 'integer',
    /** All open holds; never more than `balance`. */
    held: 'integer',
    /** Of the balance, what is left of what was included. */
    allowance: 'integer',
    /** All that was ever included. */
    included: 'integer',
    created_at: 'text',
  },
  gateway_keys: {
    id: 'text',
    account_id: 'text',
    /** Hex of the SHA-256 of its secret. */
    hash: 'text',
    last4: 'text',
    label: 'text?',
    cap: 'integer?',
    /** All that its requests were charged. */
    spent: 'integer',
    /** All open holds of its requests. */
    held: 'integer',
    /** A JSON array of ids. */
    models: 'text?',
    created_at: 'text',
    expires_at: 'text?',
    revoked_at: 'text?',
  },
  /** Open ones only: a hold goes in the transaction that brings the row of the request. */
  gateway_holds: { request_id: 'text', ...asked },
  /** Every request that is over, refused ones too. */
  gateway_requests: {
    id: 'text',
    ...asked,
    /** How it came to its end: `settled`, `released`, `refused`, or `crash` where its gateway died. */
    ended: 'text',
    ended_at: 'text',
    /** As `charged` and `overrun` together. */
    cost: 'integer',
    charged: 'integer',
    overrun: 'integer',
    cost_fresh: 'integer',
    cost_cache_write: 'integer',
    cost_cache_read: 'integer',
    cost_output: 'integer',
    /** Null where no usage is known. */
    tokens_fresh: 'integer?',
    tokens_cache_write: 'integer?',
    tokens_cache_write_1h: 'integer?',
    tokens_cache_read: 'integer?',
    tokens_output: 'integer?',
    tokens_reasoning: 'integer?',
    /** These are null after a crash. */
    endpoint: 'text?',
    status: 'integer?',
    outcome: 'text?',
    reason: 'text?',
    total_ms: 'integer?',
    pricing_identity: 'text?',
    first_byte_ms: 'integer?',
  },
  /** One move of money; what it moves are its entries, which add up to zero. */
  gateway_transactions: {
    /** The request, or a number of its own. */
    reference: 'text',
    /** `settle`, `crash`, `credit` or `include`. Once for each reference. */
    kind: 'text',
    at: 'text',
    note: 'text?',
  },
  gateway_entries: { reference: 'text', kind: 'text', account_id: 'text', amount: 'integer' },
  gateway_idempotency: {
    account_id: 'text',
    key: 'text',
    body_hash: 'text',
    request_id: 'text',
    /** `open` while the request is under way, `done` with its answer, `gone` where that was not kept. */
    state: 'text',
    claimed_at: 'text',
    /** A JSON object: status, headers, body. */
    answer: 'text?',
  },
  /** Gateways on this database. */
  gateway_replicas: {
    id: 'text',
    /** Of the process: the machine's name, its id there, and when it began (ms since 1970). */
    host: 'text',
    pid: 'integer',
    origin: 'integer',
    /** Milliseconds since 1970 by the database's clock, which all replicas share. */
    beat_at: 'integer',
  },
} as const satisfies Readonly<Record<string, Columns>>;

export type TableName = keyof typeof columns;
export type Row<T extends TableName> = RowOf<(typeof columns)[T]>;
export type LedgerTables = { [T in TableName]: Row<T> };

/** The accounts that are not a user's. Their rows are made with the tables. */
export const houseAccounts = { revenue: 'revenue', house: 'house', funding: 'funding' } as const;
