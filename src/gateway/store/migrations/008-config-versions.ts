import type { Kysely } from 'kysely';

/** `config/config-versions.ts` documents the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('gateway_config_versions')
    .addColumn('version', 'bigint', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('gateway_config_versions_key', ['version'])
    .execute();
}
