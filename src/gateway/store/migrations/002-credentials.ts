import type { CreateTableBuilder, Kysely } from 'kysely';

const credential =
  'id account_id provider mode status last4 created_at alg kek_id wrapped_key iv tag ciphertext'.split(' ');

/** Only texts and integers, which both databases treat alike. `access/tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  let credentials: CreateTableBuilder<string, string> = db.schema.createTable('gateway_credentials');
  credentials = credentials.addColumn('base_url', 'text');
  for (const column of credential)
    credentials = credentials.addColumn(column, 'text', (one) => one.notNull());
  await credentials.addPrimaryKeyConstraint('gateway_credentials_key', ['id']).execute();
  await db.schema
    .createIndex('gateway_credentials_of_account')
    .unique()
    .on('gateway_credentials')
    .columns(['account_id', 'provider'])
    .execute();

  await db.schema
    .createTable('gateway_rate')
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('full_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('gateway_rate_key', ['key_id'])
    .execute();
  await db.schema
    .createTable('gateway_running')
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('replica_id', 'text', (column) => column.notNull())
    .addColumn('running', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('gateway_running_key', ['key_id', 'replica_id'])
    .execute();
  // Rows of dead gateways are searched for every few seconds.
  await db.schema
    .createIndex('gateway_running_by_expires_at')
    .on('gateway_running')
    .column('expires_at')
    .execute();
}
