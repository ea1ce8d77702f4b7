import { type Kysely, sql, SqliteAdapter } from 'kysely';

/** `store/tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const isSqlite = db.getExecutor().adapter instanceof SqliteAdapter;
  // Byte-wise comparison in both databases, independent of the server's locale.
  const text = isSqlite ? 'text' : sql`text collate "C"`;
  await db.schema
    .createTable('gateway_archives')
    .addColumn('day', text, (column) => column.notNull())
    .addColumn('file', text, (column) => column.notNull())
    .addColumn('digest', text, (column) => column.notNull())
    .addColumn('requests', 'bigint', (column) => column.notNull())
    .addColumn('removed', 'bigint', (column) => column.notNull())
    .addColumn('created_at', text, (column) => column.notNull())
    .addPrimaryKeyConstraint('gateway_archives_key', ['day'])
    .execute();
  await db.schema
    .createTable('gateway_archived')
    .addColumn('day', text, (column) => column.notNull())
    .addColumn('key_id', text, (column) => column.notNull())
    .addColumn('account_id', text, (column) => column.notNull())
    .addColumn('requests', 'bigint', (column) => column.notNull())
    .addColumn('spent', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('gateway_archived_key', ['day', 'key_id'])
    .execute();
}
