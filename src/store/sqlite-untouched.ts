import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { StoreError } from './errors.ts';

/** An SQLite file as it is now: `frozen` where nobody can be writing to it, so that it is read without its other files. */
export interface SqliteWay {
  readonly uri: string;
  readonly frozen: boolean;
}

export const sizeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size;

/**
 * How an SQLite file with a write-ahead log can be read so that neither it nor anything beside it is changed, made or
 * removed. SQLite's own `mode=ro` is not that: it makes the file that coordinates readers (`-shm`), and mends it.
 * @throws StoreError where there is no such way
 */
export function untouchedWay(path: string): SqliteWay {
  const uri = `${pathToFileURL(path).href}?mode=ro`;
  const log = sizeOf(`${path}-wal`);
  const coordinated = sizeOf(`${path}-shm`) !== undefined;
  // Whoever has it open has made both. They stay behind after a kill, too: then SQLite reads the log into its memory.
  if (log !== undefined && coordinated) return { uri: `${uri}&readonly_shm=1`, frozen: false };
  if (!log) return { uri: `${uri}&immutable=1`, frozen: true };
  throw new StoreError(
    'storage_failed',
    `what was written to ${path} last is in ${path}-wal, and there is no ${path}-shm, without which it cannot be read as it is: copy that, too, or start the host on them once`,
  );
}
