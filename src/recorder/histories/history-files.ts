import { closeSync, fsyncSync, openSync, readdirSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type RackId, racks } from '../../tracing/index.ts';

/**
 * A rack's history is one SQLite file, `agent.db`; after a purge it is `agent.1.db`, and so on. A name is never reused,
 * because a process that still reads the old file would take the WAL of the new one for its own.
 */
const fileNamePattern = new RegExp(
  `^(${racks.join('|')})(?:\\.([1-9]\\d{0,14}))?\\.db(-wal|-shm|-journal)?$`,
);

interface HistoryFile {
  readonly path: string;
  readonly rack: RackId;
  readonly generation: number;
  /** Whether it is the database file rather than its WAL, shared memory or journal. */
  readonly isDatabase: boolean;
}

export const historyPath = (folder: string, rack: RackId, generation: number): string =>
  join(folder, generation === 0 ? `${rack}.db` : `${rack}.${generation}.db`);

export function historyFiles(folder: string): HistoryFile[] {
  return readdirSync(folder).flatMap((file) => {
    const [, rack, generation = '0', suffix] = fileNamePattern.exec(file) ?? [];
    if (rack === undefined) return [];
    const isDatabase = suffix === undefined;
    return [{ path: join(folder, file), rack: rack as RackId, generation: Number(generation), isDatabase }];
  });
}

/** Generation of the newest history file; undefined if nothing was ever recorded. */
export function currentGeneration(folder: string, rack: RackId): number | undefined {
  const generations = historyFiles(folder)
    .filter((file) => file.isDatabase && file.rack === rack)
    .map((file) => file.generation);
  return generations.length === 0 ? undefined : Math.max(...generations);
}

export function currentPath(folder: string, rack: RackId): string | undefined {
  const generation = currentGeneration(folder, rack);
  return generation === undefined ? undefined : historyPath(folder, rack, generation);
}

/** Creates an empty file with mode 600, which SQLite copies to its other files. An existing file is not changed. */
export function createHistoryFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Deletes files of older generations that an interrupted purge left.
 * @returns whether no file is left that may contain event data
 */
export function deleteOlderGenerations(folder: string, rack: RackId): boolean {
  const older = () => {
    const newest = currentGeneration(folder, rack) ?? -1;
    return historyFiles(folder).filter((file) => file.rack === rack && file.generation !== newest);
  };
  const found = older();
  if (found.length === 0) return true;
  // Databases first: a WAL without its database is deleted at the next run, but a database without its WAL is damaged.
  for (const { path } of found.sort((a, b) => Number(b.isDatabase) - Number(a.isDatabase))) deleteFile(path);
  syncFolder(folder);
  // A reader that was just opening the database may recreate an empty WAL and its index.
  return older().every(({ path, isDatabase }) => !isDatabase && (path.endsWith('-shm') || isEmpty(path)));
}

const isEmpty = (path: string) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;

export function deleteFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Flushes created and deleted directory entries to disk. */
export function syncFolder(folder: string): void {
  // Windows cannot open folders and journals them itself.
  if (process.platform === 'win32') return;
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
