import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { StoreError } from './errors.ts';

/** SQLite's result codes; the upper bits of a code tell more. */
const codes = { busy: 5, readonly: 8, io: 10, corrupt: 11, full: 13, cannotOpen: 14, notDatabase: 26 };
/** In bytes: less than SQLite needs for anything. */
const noRoom = 64 * 1024;

export const isBusy = (error: unknown): boolean => codeOf(error) === codes.busy;

/** What SQLite refused, as ours; what is ours already passes through. */
export function explainSqlite(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const { message, code } = error as NodeJS.ErrnoException;
  if (code === 'ERR_INVALID_STATE')
    return failed('the database is closed, because the host is stopping', error);
  switch (codeOf(error)) {
    case codes.full:
      return full(path, error);
    case codes.io:
    case codes.cannotOpen:
      // Of its other files, SQLite does not tell a full disk from a broken one.
      return roomAt(path) < noRoom
        ? full(path, error)
        : failed(
            `${path} could not be read or written: ${message}; it must be a file of a sound disk that this user may read and write`,
            error,
          );
    case codes.busy:
      return failed(
        `${path} is held by another process for too long; end that one, or try again later`,
        error,
      );
    case codes.readonly:
      return failed(`${path} cannot be written: ${message}. Let this user write to it and its folder`, error);
    case codes.corrupt:
      return failed(
        `${path} is damaged: ${message}. Put back a copy, or move it away with its -wal and -shm files and begin anew`,
        error,
      );
    case codes.notDatabase:
      return failed(`${path} is no SQLite database: name another file, or move this one away`, error);
    default:
      return failed(`the database ${path}: ${message}`, error);
  }
}

/** Why a new file could not be made. */
export function explainFile(error: unknown, path: string): StoreError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return full(path, error);
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: `the folder ${dirname(path)} is not there: create it, or name another file`,
    ENOTDIR: `${dirname(path)} is no folder: name another file`,
    EACCES: `this user may not write to the folder ${dirname(path)}: allow it, or name another file`,
    EPERM: `this user may not write to the folder ${dirname(path)}: allow it, or name another file`,
    EROFS: `the folder ${dirname(path)} is read-only: name a file elsewhere`,
  };
  return failed(`the database ${path} cannot be made: ${reasons[code ?? ''] ?? message}`, error);
}

const failed = (message: string, cause: unknown) => new StoreError('storage_failed', message, { cause });

const full = (path: string, cause: unknown) =>
  new StoreError('storage_full', `the disk that holds ${path} is full`, { cause });

function codeOf(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === 'number' ? errcode & 0xff : undefined;
}

function roomAt(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}
