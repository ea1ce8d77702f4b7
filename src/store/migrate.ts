import { type Kysely, sql } from 'kysely';
import { StoreError } from './errors.ts';
import { migrations } from './migrations/index.ts';
import type { Tables } from './schema.ts';

/** A type, not an interface: Kysely asks for an index signature. */
type Done = { lathe_migrations: { name: string; at: string } };

/**
 * Brings a database up to date, in one transaction: a host that is killed meanwhile leaves it as it was, and of several
 * hosts that start at once, one does it.
 */
export async function migrate(db: Kysely<Tables>, now: () => Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await tx.schema
      .createTable('lathe_migrations')
      .ifNotExists()
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('at', 'text', (column) => column.notNull())
      .execute();
    const own = tx.withTables<Done>();
    const done = new Set(
      (await own.selectFrom('lathe_migrations').select('name').execute()).map((row) => row.name),
    );
    const unknown = [...done].filter((name) => !Object.hasOwn(migrations, name)).sort();
    if (unknown.length > 0)
      throw new StoreError(
        'storage_failed',
        `the database was written by a newer lathe (it has ${unknown.join(', ')}): start that version, or name another database`,
      );
    for (const name of Object.keys(migrations).sort()) {
      if (done.has(name)) continue;
      await migrations[name]?.up(tx);
      await own.insertInto('lathe_migrations').values({ name, at: now().toISOString() }).execute();
    }
    // Finds out now, and not with the first act, that a database can only be read.
    await own.updateTable('lathe_migrations').set({ at: sql`at` }).execute();
  });
}
