import type { Kysely } from 'kysely';
import { createTable } from './create-table.ts';

/** Endpoints that events are posted to, and what is not delivered yet. `schema.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db, 'webhooks', {
    key: 'id',
    text: 'id endpoint lease_until',
    optionalText: 'delivered_at last_error last_error_at lease_by',
    count: 'cursor delivered given_up',
  });
  await db.schema.createIndex('webhooks_by_endpoint').unique().on('webhooks').columns(['endpoint']).execute();
  await createTable(db, 'webhook_deliveries', {
    key: 'webhook seq',
    text: 'webhook subject queued_at',
    optionalText: 'next_at',
    count: 'seq attempts',
  });
  await db.schema
    .createIndex('webhook_deliveries_by_subject')
    .on('webhook_deliveries')
    .columns(['webhook', 'subject', 'seq'])
    .execute();
  await db.schema
    .createIndex('webhook_deliveries_by_time')
    .on('webhook_deliveries')
    .columns(['webhook', 'next_at'])
    .execute();
}
