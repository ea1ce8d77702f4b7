import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** Adds what changes of keys and accounts need, and their log. `tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  await sql`alter table gateway_keys add column revision bigint not null default 0`.execute(db);
  await sql`alter table gateway_keys add column disabled_at ${text}`.execute(db);
  await sql`alter table gateway_accounts add column disabled_at ${text}`.execute(db);
  await sql`create table gateway_changes (
    id ${text} not null primary key, at ${text} not null, actor ${text} not null, account_id ${text} not null,
    subject ${text} not null, action ${text} not null, before ${text}, after ${text}
  )`.execute(db);
  await sql`create index gateway_changes_by_at on gateway_changes (at, id)`.execute(db);
}
