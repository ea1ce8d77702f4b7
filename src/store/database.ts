import type { Database, DatabaseOptions } from './dialect.ts';
import { StoreError } from './errors.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';

/** Closes both pools. Kysely's `destroy` would leave connections open that it never used. */
export async function closeDatabase({ readPool, writePool }: Database): Promise<void> {
  await readPool.close();
  await writePool.close();
}

/**
 * Opens a database by its URL, `sqlite:PATH` or `postgres://...`. Throws or rejects with `StoreError`.
 * @param onNotice called when an idle connection breaks
 */
export function openDatabase(
  url: string,
  onNotice: (error: StoreError) => void,
  options: DatabaseOptions = {},
): Promise<Database> {
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  if (path !== undefined) return openSqlite(path, options);
  if (/^postgres(?:ql)?:/.test(url)) return Promise.resolve(openPostgres(url, onNotice, options));
  // Only the scheme is shown, because the rest may hold a password.
  const scheme = /^[a-z][a-z0-9+.-]{0,20}:/i.exec(url)?.[0];
  throw new StoreError(
    'storage_failed',
    `${scheme === undefined ? 'the database URL has no scheme' : `the database URL scheme ${scheme} is not supported`}: write sqlite:PATH or postgres://USER@HOST/DATABASE`,
  );
}
