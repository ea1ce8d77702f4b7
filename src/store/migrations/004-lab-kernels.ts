import type { Kysely } from 'kysely';
import { createTable } from './create-table.ts';

/** Registrations of lab kernels. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db, 'lab_kernels', {
    key: 'id',
    text: 'id endpoint_id at name digest environment registration report',
    count: 'accepted deleted',
  });
  await db.schema
    .createIndex('lab_kernels_by_name')
    .on('lab_kernels')
    .columns(['endpoint_id', 'name', 'at'])
    .execute();
}
