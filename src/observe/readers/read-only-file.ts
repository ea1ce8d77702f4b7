import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { explainSqlite } from '../../store/sqlite-errors.ts';
import { fileSize, type ReadOnlySqlite, readOnlyUriOf } from '../../store/sqlite-read-only.ts';
import { ObserveError } from '../errors.ts';
import { unavailable } from './errors.ts';

/** Time limit for waiting for another process that holds the file. */
const busyTimeoutMs = 200;
/** SQLite error codes for side files that can neither be used nor created. */
const errorCodes = { readOnly: 8, cannotOpen: 14 };

/**
 * Opens a file read-only, with fallbacks. A database with a WAL needs the shared-memory file, which SQLite creates if
 * it is missing. If it cannot be created (read-only folder or disk), the database file alone is read as immutable,
 * provided that the WAL is empty.
 * @param attempt opens the file and reads something
 * @param untouched do not create or repair side files
 */
export function openWithFallback<T>(
  path: string,
  untouched: boolean,
  attempt: (way: ReadOnlySqlite) => T,
): T {
  const uri = `${pathToFileURL(path).href}?mode=ro`;
  if (!fileSize(path)) throw unavailable(databaseMissing(path));
  if (untouched) return attemptUntouched(path, attempt);
  try {
    return attempt({ uri, isImmutable: false });
  } catch (error) {
    const { errcode = 0 } = error as { errcode?: number };
    const code = errcode & 0xff;
    if (code !== errorCodes.cannotOpen && code !== errorCodes.readOnly) throw toObserveError(error, path);
    if (fileSize(`${path}-wal`))
      throw unavailable(
        `the latest changes of ${path} are in ${path}-wal, which SQLite cannot read in a read-only folder: copy both files to a writable folder, or start the host on them once`,
        error,
      );
  }
  try {
    return attempt({ uri: `${uri}&immutable=1`, isImmutable: true });
  } catch (error) {
    throw toObserveError(error, path);
  }
}

function attemptUntouched<T>(path: string, attempt: (way: ReadOnlySqlite) => T): T {
  try {
    return attempt(readOnlyUriOf(path));
  } catch (error) {
    throw toObserveError(error, path);
  }
}

export function openReadOnly(
  path: string,
  untouched: boolean,
): { readonly db: DatabaseSync; readonly frozen: boolean } {
  return openWithFallback(path, untouched, ({ uri, isImmutable: frozen }) => {
    const db = new DatabaseSync(uri, { readOnly: true, timeout: busyTimeoutMs });
    try {
      db.prepare('select count(*) from sqlite_schema').get();
      return { db, frozen };
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** Changes when the file is replaced; for an immutable file, also when its size or times change. */
export function identityOf(path: string, frozen: boolean): string {
  const { dev, ino, size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
  if (ino === undefined) throw unavailable(databaseMissing(path));
  const state = frozen ? [size, mtimeMs, fileSize(`${path}-wal`) ?? 'none'] : [];
  return [dev, ino, ...state].join(' ');
}

export const toObserveError = (error: unknown, path: string): ObserveError =>
  error instanceof ObserveError ? error : unavailable(explainSqlite(error, path).message, error);

const databaseMissing = (path: string) =>
  `there is no database at ${path}; name the data directory of a host that was started at least once`;
