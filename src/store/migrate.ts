import { type Kysely, sql, type Transaction } from 'kysely';
import type { Migration } from 'kysely/migration';
import { StoreError } from './errors.ts';
import { migrations } from './migrations/index.ts';
import type { Tables } from './schema.ts';

type Migrations = Readonly<Record<string, Migration>>;

/**
 * Runs all pending migrations in one transaction: a host that is killed meanwhile leaves the database unchanged, and of
 * several hosts that start at once, one runs them.
 */
export async function migrateStore(db: Kysely<Tables>, now: () => Date): Promise<void> {
  await db.transaction().execute((tx) => runMigrations(tx, 'lathe_migrations', migrations, now));
}

/**
 * Runs the pending migrations, in the order of their names.
 * @param tx transaction that holds the migration lock
 * @param table stores the names of completed migrations
 */
export async function runMigrations<DB>(
  tx: Transaction<DB>,
  table: string,
  migrationsByName: Migrations,
  now: () => Date,
): Promise<void> {
  await tx.schema
    .createTable(table)
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('at', 'text', (column) => column.notNull())
    .execute();
  const { rows } = await sql<{ name: string }>`select name from ${sql.table(table)}`.execute(tx);
  const completed = new Set(rows.map(({ name }) => name));
  const unknown = [...completed].filter((name) => !Object.hasOwn(migrationsByName, name)).sort();
  if (unknown.length > 0)
    throw new StoreError(
      'storage_failed',
      `the database was written by a newer lathe (it has ${unknown.join(', ')}): start that version, or name another database`,
    );
  for (const name of Object.keys(migrationsByName).sort()) {
    if (completed.has(name)) continue;
    await migrationsByName[name]?.up(tx);
    const at = now().toISOString();
    await sql`insert into ${sql.table(table)} (name, at) values (${name}, ${at})`.execute(tx);
  }
  // A write, so that a read-only database is detected now and not at the first journal entry.
  await sql`update ${sql.table(table)} set at = at`.execute(tx);
}
