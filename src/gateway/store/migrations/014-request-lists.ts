import { type Kysely, sql } from 'kysely';

/**
 * For lists of the requests of an account or key, newest first: without it a list reads all requests where that account has few,
 * and on SQLite the gateway waits.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const column of ['account_id', 'key_id'])
    await sql`create index ${sql.raw(`gateway_requests_by_${column}`)} on gateway_requests (${sql.raw(column)}, ended_at, id)`.execute(
      db,
    );
}
