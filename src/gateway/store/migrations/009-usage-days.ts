import { type Kysely, sql } from 'kysely';

/** Adds an index for reports of all keys, which read the usage day by day. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index gateway_usage_by_day on gateway_usage (day)`.execute(db);
}
