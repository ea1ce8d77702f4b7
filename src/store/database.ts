import type { Database, DatabaseOptions } from './dialect.ts';
import { StoreError } from './errors.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';

/** Not by way of Kysely, which leaves open what it never used. */
export async function closeDatabase({ reading, writing }: Database): Promise<void> {
  await reading.close();
  await writing.close();
}

/**
 * By its URL, `sqlite:PATH` or `postgres://...`. Throws or rejects with `StoreError`.
 * @param onNotice hears of connections that break while nobody uses them
 */
export function openDatabase(
  url: string,
  onNotice: (error: StoreError) => void,
  options: DatabaseOptions = {},
): Promise<Database> {
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  if (path !== undefined) return openSqlite(path, options);
  if (/^postgres(?:ql)?:/.test(url)) return Promise.resolve(openPostgres(url, onNotice, options));
  // Only its beginning: more of it may be a password.
  const scheme = /^[a-z][a-z0-9+.-]{0,20}:/i.exec(url)?.[0];
  throw new StoreError(
    'storage_failed',
    `${scheme === undefined ? 'the database has no known kind' : `databases of the kind ${scheme} are not known`}: write sqlite:PATH or postgres://USER@HOST/DATABASE`,
  );
}
