import { type Kysely, sql } from 'kysely';

/** Adds keys' own limits, and the bucket of their tokens. `tables.ts` and `access/tables.ts` document the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const column of ['concurrency', 'requests_per_minute', 'tokens_per_minute'])
    await sql`alter table gateway_keys add column ${sql.raw(column)} bigint`.execute(db);
  await sql`alter table gateway_rate add column tokens_full_at bigint not null default 0`.execute(db);
}
