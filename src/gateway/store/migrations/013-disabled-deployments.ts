import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** `upstream/disabled-deployments.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  await sql`create table gateway_disabled (
    provider ${text} not null, model ${text} not null, at ${text} not null, actor ${text} not null, note ${text},
    primary key (provider, model)
  )`.execute(db);
}
