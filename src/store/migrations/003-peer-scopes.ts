import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** What tokens of peers are limited to; null, as in all rows before: no limit. `schema.ts` says what the columns mean. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  for (const column of ['scope', 'expires_at'])
    await db.schema.alterTable('peers').addColumn(column, text).execute();
}
