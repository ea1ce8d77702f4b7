import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** Adds the set that a pending change was approved with; null, as in existing rows, means alone. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  await db.schema.alterTable('pending').addColumn('approved_with', text).execute();
}
