import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** Tasks that other tasks hand work on to. `schema.ts` documents the column. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  await db.schema.alterTable('tasks').addColumn('parent', text).execute();
  await db.schema.createIndex('tasks_parent').on('tasks').columns(['parent']).execute();
}
