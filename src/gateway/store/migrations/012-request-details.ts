import { type Kysely, SqliteAdapter, sql } from 'kysely';

/**
 * Adds what requests cost besides tokens: calls of tools that providers ran, and hedged attempts. `tables.ts` documents the
 * columns. Gateways of an earlier version write rows without them.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = sql.raw(db.getExecutor().adapter instanceof SqliteAdapter ? 'text' : 'text collate "C"');
  for (const column of ['cost_tools', 'cost_hedge'])
    await sql`alter table gateway_requests add column ${sql.raw(column)} bigint not null default 0`.execute(
      db,
    );
  await sql`alter table gateway_requests add column details ${text}`.execute(db);
}
