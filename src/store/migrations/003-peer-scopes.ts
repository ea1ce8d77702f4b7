import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** Adds the limits of peer tokens; null, as in existing rows, means no limit. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  for (const column of ['scope', 'expires_at'])
    await db.schema.alterTable('peers').addColumn(column, text).execute();
}
