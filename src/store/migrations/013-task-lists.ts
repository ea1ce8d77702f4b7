import type { Kysely } from 'kysely';

/** For lists of tasks, newest first: without it each list reads and sorts all tasks with their results, while the host waits. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.createIndex('tasks_by_number').on('tasks').columns(['n']).execute();
  await db.schema.createIndex('tasks_by_state_and_number').on('tasks').columns(['state', 'n']).execute();
}
