import type { Kysely } from 'kysely';
import { createTable } from './create-table.ts';

/** Stored responses of `POST /v1/responses`. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db, 'responses', {
    key: 'id',
    text: 'id endpoint_id owner status created_at input output response',
    optionalText: 'previous events',
    count: 'context_bytes',
  });
  await db.schema.createIndex('responses_by_time').on('responses').columns(['created_at']).execute();
  await db.schema
    .createIndex('responses_by_status')
    .on('responses')
    .columns(['endpoint_id', 'status'])
    .execute();
}
