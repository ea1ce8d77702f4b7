import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** Adds the cache of answers. `tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  await sql`create table gateway_cache (
    key ${text} not null primary key, account_id ${text} not null, model ${text} not null, stored_at ${text} not null,
    expires_at ${text} not null, bytes bigint not null, answer ${text} not null
  )`.execute(db);
  await sql`create index gateway_cache_by_stored_at on gateway_cache (stored_at, key)`.execute(db);
  await sql`create index gateway_cache_by_expires_at on gateway_cache (expires_at)`.execute(db);
}
