import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StoreError } from './errors.ts';

/** How to open an SQLite file read-only. `frozen`: no process writes to it, so it is read without its other files. */
export interface SqliteWay {
  readonly uri: string;
  readonly frozen: boolean;
}

export const sizeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size;

/**
 * Returns the URI that reads an SQLite file with a write-ahead log without changing, creating or removing any file.
 * SQLite's `mode=ro` alone does not: it creates and repairs the `-shm` file that coordinates readers.
 * @throws StoreError when the file cannot be read in this way
 */
export function untouchedWay(path: string): SqliteWay {
  const uri = `${pathToFileURL(path).href}?mode=ro`;
  const log = sizeOf(`${path}-wal`);
  const coordinated = sizeOf(`${path}-shm`) !== undefined;
  // A process that has the database open has created both files. They remain after a kill; SQLite then reads the log into
  // memory.
  if (log !== undefined && coordinated) return { uri: `${uri}&readonly_shm=1`, frozen: false };
  if (!log) return { uri: `${uri}&immutable=1`, frozen: true };
  throw new StoreError(
    'storage_failed',
    `the latest changes to ${path} are in ${path}-wal, which cannot be read without ${path}-shm: copy that file too, or start the host once on these files`,
  );
}
