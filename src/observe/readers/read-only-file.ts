import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { explainSqlite } from '../../store/sqlite-errors.ts';
import { sizeOf, type SqliteWay, untouchedWay } from '../../store/sqlite-untouched.ts';
import { ObserveError } from '../errors.ts';
import { unreadable } from './failures.ts';

/** How long another process may hold a file that it brings into order, in ms. */
const patience = 200;
/** SQLite's: its other files can be neither used nor made here. */
const codes = { readOnly: 8, cannotOpen: 14 };

/**
 * Tries how a file can be read, and never in a way that could write to it. A database of which the latest is in its log
 * needs the file that coordinates readers, which is made where it is missing; where none can be made (a folder or a
 * disk that cannot be written), the file alone is read, if there is nothing in the log.
 * @param attempt opens it and reads something
 * @param untouched not even SQLite's other files are made or mended
 */
export function openSome<T>(path: string, untouched: boolean, attempt: (way: SqliteWay) => T): T {
  const uri = `${pathToFileURL(path).href}?mode=ro`;
  if (!sizeOf(path)) throw unreadable(notThere(path));
  if (untouched) return attemptUntouched(path, attempt);
  try {
    return attempt({ uri, frozen: false });
  } catch (error) {
    const { errcode = 0 } = error as { errcode?: number };
    const code = errcode & 0xff;
    if (code !== codes.cannotOpen && code !== codes.readOnly) throw explain(error, path);
    if (sizeOf(`${path}-wal`))
      throw unreadable(
        `what was written to ${path} last is in ${path}-wal, which cannot be read in a place where nothing can be written: copy both to a folder that this user may write to, or start the host on them once`,
        error,
      );
  }
  try {
    return attempt({ uri: `${uri}&immutable=1`, frozen: true });
  } catch (error) {
    throw explain(error, path);
  }
}

function attemptUntouched<T>(path: string, attempt: (way: SqliteWay) => T): T {
  try {
    return attempt(untouchedWay(path));
  } catch (error) {
    throw explain(error, path);
  }
}

export function openReadOnly(
  path: string,
  untouched: boolean,
): { readonly db: DatabaseSync; readonly frozen: boolean } {
  return openSome(path, untouched, ({ uri, frozen }) => {
    const db = new DatabaseSync(uri, { readOnly: true, timeout: patience });
    try {
      db.prepare('select count(*) from sqlite_schema').get();
      return { db, frozen };
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** Changes when the file is replaced, and of a frozen one with anything that happens to it. */
export function identityOf(path: string, frozen: boolean): string {
  const { dev, ino, size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
  if (ino === undefined) throw unreadable(notThere(path));
  const state = frozen ? [size, mtimeMs, sizeOf(`${path}-wal`) ?? 'none'] : [];
  return [dev, ino, ...state].join(' ');
}

export const explain = (error: unknown, path: string): ObserveError =>
  error instanceof ObserveError ? error : unreadable(explainSqlite(error, path).message, error);

const notThere = (path: string) =>
  `there is no database at ${path}: name the data directory of a host that was started at least once`;
