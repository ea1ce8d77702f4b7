import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** Adds parents of accounts, and budgets of accounts and keys. `tables.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  await sql`alter table gateway_accounts add column parent_id ${text}`.execute(db);
  await sql`alter table gateway_holds add column budgets ${text}`.execute(db);
  await sql`create table gateway_budgets (
    id ${text} not null primary key, owner_id ${text} not null, account_id ${text} not null,
    period ${text} not null, time_zone ${text}, amount bigint not null, spent bigint not null, held bigint not null,
    ends_at ${text}, slices ${text}, created_at ${text} not null,
    check (amount >= 0), check (spent >= 0), check (held >= 0)
  )`.execute(db);
  await sql`create unique index gateway_budgets_of_owner on gateway_budgets (owner_id, period)`.execute(db);
  await sql`create index gateway_budgets_by_account_id on gateway_budgets (account_id)`.execute(db);
}
