import { type Kysely, PostgresAdapter, sql } from 'kysely';
import { createTable } from './create-table.ts';

/** Conversations of tasks, and idempotency keys of runs. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const text = db.getExecutor().adapter instanceof PostgresAdapter ? sql`text collate "C"` : 'text';
  await createTable(db, 'task_messages', { key: 'task_id n', text: 'task_id at message', count: 'n' });
  await createTable(db, 'task_parts', {
    key: 'task_id n',
    text: 'task_id started_at request request_digest',
    optionalText: 'idempotency_key',
    count: 'n first_seq',
  });
  await db.schema
    .createIndex('task_parts_idempotency')
    .unique()
    .on('task_parts')
    .columns(['task_id', 'idempotency_key'])
    .execute();
  await db.schema
    .alterTable('tasks')
    .addColumn('part', 'bigint', (column) => column.notNull().defaultTo(1))
    .execute();
  await db.schema.alterTable('runs').addColumn('idempotency_key', text).execute();
  await db.schema.alterTable('runs').addColumn('request_digest', text).execute();
  await db.schema.createIndex('runs_idempotency').unique().on('runs').columns(['idempotency_key']).execute();
}
