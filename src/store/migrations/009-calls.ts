import { type Kysely, PostgresAdapter, sql } from 'kysely';

/** Tasks that other tasks hand work on to, and the calls that changes come from. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  await db.schema.alterTable('tasks').addColumn('parent', text).execute();
  await db.schema.createIndex('tasks_parent').on('tasks').columns(['parent']).execute();
  await db.schema.alterTable('pending').addColumn('call_key', text).execute();
  await db.schema.createIndex('pending_call').on('pending').columns(['call_key']).execute();
}
