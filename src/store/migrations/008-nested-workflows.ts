import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** Workflows that steps run, and the model of a run. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  await db.schema.alterTable('runs').addColumn('nested_sources', text).execute();
  await db.schema.alterTable('runs').addColumn('resident_model', text).execute();
}
