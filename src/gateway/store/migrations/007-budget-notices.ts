import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** Adds notices of budgets, and those that wait to be posted. `tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  await sql`alter table gateway_budgets add column noticed ${text}`.execute(db);
  await sql`create table gateway_notices (
    id ${text} not null primary key, at ${text} not null, body ${text} not null, attempts bigint not null,
    next_at ${text} not null
  )`.execute(db);
  await sql`create index gateway_notices_by_next_at on gateway_notices (next_at)`.execute(db);
}
