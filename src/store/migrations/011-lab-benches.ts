import type { Kysely } from 'kysely';
import { createTable } from './create-table.ts';

/** Finished benches of the lab. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db, 'lab_benches', { key: 'id', text: 'id endpoint_id at summary record' });
  await db.schema
    .createIndex('lab_benches_by_time')
    .on('lab_benches')
    .columns(['endpoint_id', 'at'])
    .execute();
}
