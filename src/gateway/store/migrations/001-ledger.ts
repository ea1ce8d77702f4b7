import { type CreateTableBuilder, type Kysely, SqliteAdapter, sql } from 'kysely';

/** A table definition; each member lists column names, separated by spaces. */
interface Table {
  readonly key: string;
  readonly text: string;
  readonly optionalText?: string;
  readonly integer?: string;
  readonly optionalInteger?: string;
  /** Check constraints. */
  readonly checks?: readonly string[];
  /** Create the table without rowid in SQLite: rows are stored in the primary key, so a commit writes half the pages. */
  readonly isWithoutRowid?: boolean;
}

const requestColumns =
  'account_id key_id requested_model effective_model provider wire replica_id reserved_at';

/** Only texts and integers, which both databases treat alike. `tables.ts` documents the columns. */
const tables: Readonly<Record<string, Table>> = {
  gateway_accounts: {
    key: 'id',
    text: 'id kind name created_at',
    integer: 'balance held allowance included',
    checks: ['held >= 0', 'held <= balance', 'allowance >= 0', 'allowance <= balance'],
  },
  gateway_keys: {
    key: 'id',
    text: 'id account_id hash last4 created_at',
    optionalText: 'label models expires_at revoked_at',
    integer: 'spent held',
    optionalInteger: 'cap',
    checks: ['spent >= 0', 'held >= 0', 'cap is null or spent + held <= cap'],
  },
  gateway_holds: {
    key: 'request_id',
    text: `request_id ${requestColumns}`,
    optionalText: 'idempotency_key',
    integer: 'stream byok amount estimate',
    checks: ['amount >= 0', 'estimate >= 0'],
    isWithoutRowid: true,
  },
  gateway_requests: {
    key: 'id',
    text: `id ${requestColumns} ended ended_at`,
    optionalText: 'idempotency_key endpoint outcome reason pricing_identity',
    integer:
      'stream byok amount estimate cost charged overrun cost_fresh cost_cache_write cost_cache_read cost_output',
    optionalInteger:
      'tokens_fresh tokens_cache_write tokens_cache_write_1h tokens_cache_read tokens_output tokens_reasoning status total_ms first_byte_ms',
    checks: ['charged >= 0', 'charged <= amount', 'overrun >= 0', 'cost = charged + overrun'],
  },
  gateway_transactions: {
    key: 'reference kind',
    text: 'reference kind at',
    optionalText: 'note',
    isWithoutRowid: true,
  },
  gateway_entries: {
    key: 'reference kind account_id',
    text: 'reference kind account_id',
    integer: 'amount',
    checks: ['amount <> 0'],
    isWithoutRowid: true,
  },
  gateway_idempotency: {
    key: 'account_id key',
    text: 'account_id key body_hash request_id state claimed_at',
    optionalText: 'answer',
  },
  gateway_replicas: { key: 'id', text: 'id host', integer: 'pid origin beat_at' },
};

const unique: Readonly<Record<string, string>> = { gateway_accounts: 'name', gateway_keys: 'hash' };
const indices: readonly (readonly [table: string, columns: string])[] = [
  ['gateway_keys', 'account_id'],
  // For the observe plane, which lists requests newest first.
  ['gateway_requests', 'ended_at'],
  ['gateway_idempotency', 'claimed_at'],
];

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [name, table] of Object.entries(tables)) await create(db, name, table);
  for (const [name, column] of Object.entries(unique))
    await db.schema.createIndex(`${name}_${column}`).unique().on(name).column(column).execute();
  for (const [name, list] of indices) {
    const names = list.split(' ');
    await db.schema
      .createIndex(`${name}_by_${names.join('_')}`)
      .on(name)
      .columns(names)
      .execute();
  }
  const at = new Date(0).toISOString();
  for (const id of ['revenue', 'house', 'funding'])
    await sql`insert into gateway_accounts (id, kind, name, balance, held, allowance, included, created_at)
      values (${id}, ${id}, ${`(${id})`}, 0, 0, 0, 0, ${at})`.execute(db);
}

async function create(db: Kysely<unknown>, name: string, table: Table): Promise<void> {
  let builder = db.schema.createTable(name) as CreateTableBuilder<string, string>;
  const isSqlite = db.getExecutor().adapter instanceof SqliteAdapter;
  // Byte-wise comparison in both databases, independent of the server's locale.
  const text = isSqlite ? 'text' : sql`text collate "C"`;
  const add = (names: string | undefined, type: typeof text | 'bigint', optional: boolean) => {
    for (const column of names?.split(' ') ?? [])
      builder = builder.addColumn(column, type, (c) => (optional ? c : c.notNull()));
  };
  add(table.text, text, false);
  add(table.optionalText, text, true);
  add(table.integer, 'bigint', false);
  add(table.optionalInteger, 'bigint', true);
  builder = builder.addPrimaryKeyConstraint(`${name}_key`, table.key.split(' '));
  for (const [index, check] of (table.checks ?? []).entries())
    builder = builder.addCheckConstraint(`${name}_check_${index}`, sql.raw(check));
  await (table.isWithoutRowid && isSqlite ? builder.modifyEnd(sql`without rowid`) : builder).execute();
}
