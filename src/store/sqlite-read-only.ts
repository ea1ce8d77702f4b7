import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StoreError } from './errors.ts';

/** How to open an SQLite file read-only. `frozen`: no process writes to it, so it is read without its other files. */
export interface ReadOnlySqlite {
  readonly uri: string;
  readonly isImmutable: boolean;
}

export const fileSize = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size;

/**
 * Returns the URI that reads an SQLite file with a write-ahead log without changing, creating or removing any file.
 * SQLite's `mode=ro` alone does not: it creates and repairs the `-shm` file that coordinates readers.
 * @throws StoreError when the file cannot be read in this way
 */
export function readOnlyUriOf(path: string): ReadOnlySqlite {
  const uri = `${pathToFileURL(path).href}?mode=ro`;
  const logBytes = fileSize(`${path}-wal`);
  const hasSharedMemoryFile = fileSize(`${path}-shm`) !== undefined;
  // A process that has the database open has created both files. They remain after a kill; SQLite then reads the log into
  // memory.
  if (logBytes !== undefined && hasSharedMemoryFile)
    return { uri: `${uri}&readonly_shm=1`, isImmutable: false };
  if (!logBytes) return { uri: `${uri}&immutable=1`, isImmutable: true };
  throw new StoreError(
    'storage_failed',
    `the latest changes to ${path} are in ${path}-wal, which cannot be read without ${path}-shm: copy that file too, or start the host once on these files`,
  );
}
