/** Column types; `?` means nullable. Integers are read as `bigint` in both databases. */
type ColumnType = 'text' | 'text?' | 'integer' | 'integer?';
export type Columns = Readonly<Record<string, ColumnType>>;

/** A row with these columns, as it is read and written. */
export type RowOf<C extends Columns> = {
  [K in keyof C]: C[K] extends 'text'
    ? string
    : C[K] extends 'text?'
      ? string | null
      : C[K] extends 'integer'
        ? bigint
        : bigint | null;
};

const requestColumns = {
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
  /**
   * The end user, as the request names one; '' if it names none. Null: a gateway of a version without tags wrote the row, and
   * the request is not in `gateway_usage` yet.
   */
  tag: 'text?',
} as const satisfies Columns;

/** The columns of the ledger's tables. Amounts are in nanodollars; times are RFC 3339 in UTC with milliseconds. */
export const columns = {
  /** Only user accounts have sums: in a system account, every request would wait for the lock of one row. */
  gateway_accounts: {
    id: 'text',
    /** `user`, `revenue`, `house` (the operator, pays overruns) or `funding` (source of credits). */
    kind: 'text',
    name: 'text',
    /** Sum of the account's entries. */
    balance: 'integer',
    /** Sum of the account's open holds; at most `balance`. */
    held: 'integer',
    /** The part of the balance that remains of the included amount. */
    allowance: 'integer',
    /** The total that was ever included. */
    included: 'integer',
    created_at: 'text',
    disabled_at: 'text?',
    /** The account above this one, whose budgets also limit it. */
    parent_id: 'text?',
  },
  gateway_keys: {
    id: 'text',
    account_id: 'text',
    /** SHA-256 of the secret, hex. */
    hash: 'text',
    last4: 'text',
    label: 'text?',
    cap: 'integer?',
    /** Sum of the charges of its requests. */
    spent: 'integer',
    /** Sum of the open holds of its requests. */
    held: 'integer',
    /** A JSON array of model ids. */
    models: 'text?',
    created_at: 'text',
    expires_at: 'text?',
    revoked_at: 'text?',
    disabled_at: 'text?',
    /** The number of changes of the key: a gateway that knows an earlier revision reads the key again. */
    revision: 'integer',
    /** The key's own limits; null: those of the configuration. */
    concurrency: 'integer?',
    requests_per_minute: 'integer?',
    tokens_per_minute: 'integer?',
  },
  /** Open holds only: a hold is deleted in the transaction that inserts the request's row. */
  gateway_holds: {
    request_id: 'text',
    ...requestColumns,
    /** The budgets that it counts in: `owner_id:id`, separated by spaces. */
    budgets: 'text?',
  },
  /** Every request that ended, refused requests included. */
  gateway_requests: {
    id: 'text',
    ...requestColumns,
    /** How the request ended: `settled`, `released`, `refused`, or `crash` when its gateway died. */
    ended: 'text',
    ended_at: 'text',
    /** The sum of `charged` and `overrun`. */
    cost: 'integer',
    charged: 'integer',
    overrun: 'integer',
    cost_fresh: 'integer',
    cost_cache_write: 'integer',
    cost_cache_read: 'integer',
    cost_output: 'integer',
    /** Calls of tools that the provider ran. */
    cost_tools: 'integer',
    /** The attempt of a hedged request that did not answer. */
    cost_hedge: 'integer',
    /** Null when the usage is unknown. */
    tokens_fresh: 'integer?',
    tokens_cache_write: 'integer?',
    tokens_cache_write_1h: 'integer?',
    tokens_cache_read: 'integer?',
    tokens_output: 'integer?',
    tokens_reasoning: 'integer?',
    /** This and the following columns are null after a crash. */
    endpoint: 'text?',
    status: 'integer?',
    outcome: 'text?',
    reason: 'text?',
    total_ms: 'integer?',
    pricing_identity: 'text?',
    first_byte_ms: 'integer?',
    /** JSON of `RequestDetails`; null where there are none. */
    details: 'text?',
  },
  /** One movement of money. Its entries add up to zero. */
  gateway_transactions: {
    /** The request id, or a generated id. */
    reference: 'text',
    /** `settle`, `credit`, `include`, or `archive`, the sum of what a day's archived requests moved; unique for each reference. */
    kind: 'text',
    at: 'text',
    note: 'text?',
  },
  gateway_entries: { reference: 'text', kind: 'text', account_id: 'text', amount: 'integer' },
  /** Sums of all requests that ended, except refused ones, by UTC day, key, provider, model and end user. */
  gateway_usage: {
    key_id: 'text',
    /** The day on which the request ended, as `2026-01-31`. */
    day: 'text',
    provider: 'text',
    model: 'text',
    tag: 'text',
    account_id: 'text',
    requests: 'integer',
    /** All input tokens, cached ones included. */
    prompt_tokens: 'integer',
    /** Input tokens that were read from a cache. */
    cached_tokens: 'integer',
    completion_tokens: 'integer',
    /** The sum of `charged`, in nanodollars. */
    spent: 'integer',
  },
  /** Limits of what a key, or an account and the accounts below it, spend in a period. */
  gateway_budgets: {
    id: 'text',
    /** The id of a key or an account; unique together with the period. */
    owner_id: 'text',
    /** The account, or that of the key. */
    account_id: 'text',
    /** `day`, `week`, `month`, or hours or days such as `12h` and `30d`. */
    period: 'text',
    /** The time zone of a calendar period. */
    time_zone: 'text?',
    amount: 'integer',
    /** The sum of what was charged in the period, to requests that count in it. */
    spent: 'integer',
    /** The sum of the open holds that count in it. */
    held: 'integer',
    /** When a calendar period ends. */
    ends_at: 'text?',
    /** The spending of a rolling period: a JSON list of pairs of a start (ms since 1970) and nanodollars (text). */
    slices: 'text?',
    created_at: 'text',
    /** The notices that the period had: a JSON object of reasons and times (ms since 1970). */
    noticed: 'text?',
  },
  /** Notices of budgets that wait to be posted to the webhook. */
  gateway_notices: {
    id: 'text',
    at: 'text',
    /** JSON, as it is posted. */
    body: 'text',
    attempts: 'integer',
    /** The earliest time of the next attempt. */
    next_at: 'text',
  },
  /** The log of changes of accounts, keys, budgets, providers and configurations. */
  gateway_changes: {
    id: 'text',
    at: 'text',
    /** Who made the change, as `user@host`. */
    actor: 'text',
    /** Empty for changes of the gateway itself. */
    account_id: 'text',
    /** The id of what was changed. */
    subject: 'text',
    /** Such as `key update`. */
    action: 'text',
    /** JSON objects of the values that the change replaced, and of the new ones. */
    before: 'text?',
    after: 'text?',
  },
  gateway_idempotency: {
    account_id: 'text',
    key: 'text',
    body_hash: 'text',
    request_id: 'text',
    /** `open` while the request runs, `done` when its answer is stored, `gone` when it is not. */
    state: 'text',
    claimed_at: 'text',
    /** A JSON object with status, headers and body. */
    answer: 'text?',
  },
  /** The days whose requests were moved to a file, with the entries that settled them. */
  gateway_archives: {
    /** As `2026-01-31`. */
    day: 'text',
    /** The name of the file. */
    file: 'text',
    /** SHA-256 of the file, hex. */
    digest: 'text',
    /** The requests in the file, and how many of them were removed from the database so far. */
    requests: 'integer',
    removed: 'integer',
    created_at: 'text',
  },
  /** What the removed requests of a day add up to, by key; refused requests are not counted. */
  gateway_archived: {
    day: 'text',
    key_id: 'text',
    account_id: 'text',
    requests: 'integer',
    spent: 'integer',
  },
  /** Answers that are given again to the same request of the same account. */
  gateway_cache: {
    /** SHA-256 of the account and the request, hex (`cache/cache-key.ts`). */
    key: 'text',
    account_id: 'text',
    model: 'text',
    stored_at: 'text',
    expires_at: 'text',
    /** Size of the answer's body. */
    bytes: 'integer',
    /** A JSON object (`StoredAnswer` in `cache/response-cache.ts`). */
    answer: 'text',
  },
  /** The gateways that use this database. */
  gateway_replicas: {
    id: 'text',
    /** Identifies the process: host name, pid and start time (ms since 1970). */
    host: 'text',
    pid: 'integer',
    origin: 'integer',
    /** Last heartbeat, in ms since 1970 by the database's clock, which all replicas share. */
    beat_at: 'integer',
  },
} as const satisfies Readonly<Record<string, Columns>>;

export type TableName = keyof typeof columns;
export type Row<T extends TableName> = RowOf<(typeof columns)[T]>;
export type LedgerTables = { [T in TableName]: Row<T> };

/** The system accounts. The migration that creates the tables inserts their rows. */
export const systemAccounts = { revenue: 'revenue', house: 'house', funding: 'funding' } as const;
