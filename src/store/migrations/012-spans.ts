import type { Kysely } from 'kysely';
import { createTable } from './create-table.ts';

/** Parts of requests and of agents' work, for the observe plane. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db, 'spans', {
    key: 'endpoint_id id started_at',
    text: 'id endpoint_id kind name outcome started_at ended_at',
    optionalText: 'request_id subject agent model code trace_id',
    optionalCount: 'attempt',
    optionalNumber: 'response_ms total_ms retry_ms',
  });
  await db.schema
    .createIndex('spans_newest')
    .on('spans')
    .columns(['started_at', 'id', 'endpoint_id'])
    .execute();
  for (const column of ['request_id', 'subject'])
    await db.schema.createIndex(`spans_by_${column}`).on('spans').columns([column]).execute();
}
