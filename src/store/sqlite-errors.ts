import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { StoreError } from './errors.ts';

/** SQLite's primary result codes, the lower 8 bits of an extended code. */
const resultCodes = { busy: 5, readonly: 8, io: 10, corrupt: 11, full: 13, cannotOpen: 14, notDatabase: 26 };
/** Free space below which the disk counts as full, in bytes: less than SQLite needs for any write. */
const minFreeBytes = 64 * 1024;

export const isBusy = (error: unknown): boolean => resultCodeOf(error) === resultCodes.busy;

/** Converts an error of SQLite to a `StoreError`; a `StoreError` passes through. */
export function explainSqlite(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const { message, code } = error as NodeJS.ErrnoException;
  if (code === 'ERR_INVALID_STATE')
    return storageFailed('the database is closed, because the host is stopping', error);
  switch (resultCodeOf(error)) {
    case resultCodes.full:
      return storageFull(path, error);
    case resultCodes.io:
    case resultCodes.cannotOpen:
      // For its other files, SQLite reports a full disk as an I/O error.
      return freeBytesAt(path) < minFreeBytes
        ? storageFull(path, error)
        : storageFailed(
            `${path} could not be read or written: ${message}; it must be on a working disk, and this user must have read and write access`,
            error,
          );
    case resultCodes.busy:
      return storageFailed(
        `${path} was locked by another process for too long; stop that process, or try again later`,
        error,
      );
    case resultCodes.readonly:
      return storageFailed(
        `${path} cannot be written: ${message}. Let this user write to it and its folder`,
        error,
      );
    case resultCodes.corrupt:
      return storageFailed(
        `${path} is damaged: ${message}. Restore a backup, or move it away with its -wal and -shm files and start with a new one`,
        error,
      );
    case resultCodes.notDatabase:
      return storageFailed(
        `${path} is not an SQLite database: name another file, or move this one away`,
        error,
      );
    default:
      return storageFailed(`the database ${path}: ${message}`, error);
  }
}

/** Converts the error of creating a database file. */
export function explainFile(error: unknown, path: string): StoreError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return storageFull(path, error);
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: `the folder ${dirname(path)} does not exist: create it, or name another file`,
    ENOTDIR: `${dirname(path)} is not a folder: name another file`,
    EACCES: `this user may not write to the folder ${dirname(path)}: allow it, or name another file`,
    EPERM: `this user may not write to the folder ${dirname(path)}: allow it, or name another file`,
    EROFS: `the folder ${dirname(path)} is read-only: name a file elsewhere`,
  };
  return storageFailed(`the database ${path} cannot be created: ${reasons[code ?? ''] ?? message}`, error);
}

const storageFailed = (message: string, cause: unknown) =>
  new StoreError('storage_failed', message, { cause });

const storageFull = (path: string, cause: unknown) =>
  new StoreError('storage_full', `the disk that holds ${path} is full`, { cause });

function resultCodeOf(error: unknown): number | undefined {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === 'number' ? errcode & 0xff : undefined;
}

function freeBytesAt(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}
