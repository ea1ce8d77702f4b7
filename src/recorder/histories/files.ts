import { closeSync, fsyncSync, openSync, readdirSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type RackId, racks } from '../../watch/index.ts';

/**
 * A rack's history is one SQLite file, `agent.db`; after a purge the next one, `agent.1.db`. A name is never used again: who
 * still reads the old file would take the new one's log for its own.
 */
const name = new RegExp(`^(${racks.join('|')})(?:\\.([1-9]\\d{0,14}))?\\.db(-wal|-shm|-journal)?$`);

interface HistoryFile {
  readonly path: string;
  readonly rack: RackId;
  readonly generation: number;
  /** Not one of SQLite's files beside it. */
  readonly isDatabase: boolean;
}

export const historyPath = (folder: string, rack: RackId, generation: number): string =>
  join(folder, generation === 0 ? `${rack}.db` : `${rack}.${generation}.db`);

export function historyFiles(folder: string): HistoryFile[] {
  return readdirSync(folder).flatMap((file) => {
    const [, rack, generation = '0', beside] = name.exec(file) ?? [];
    if (rack === undefined) return [];
    const isDatabase = beside === undefined;
    return [{ path: join(folder, file), rack: rack as RackId, generation: Number(generation), isDatabase }];
  });
}

/** The newest history; undefined where nothing was ever kept. */
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

/** An empty file, for its owner alone; SQLite's others take that over. An existing one stays as it is. */
export function makeHistoryFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Removes what a purge left behind that was cut off: histories of a rack before its newest, and files that stood beside one.
 * @returns whether nothing is left that may have a text in it
 */
export function removeOlder(folder: string, rack: RackId): boolean {
  const older = () => {
    const newest = currentGeneration(folder, rack) ?? -1;
    return historyFiles(folder).filter((file) => file.rack === rack && file.generation !== newest);
  };
  const found = older();
  if (found.length === 0) return true;
  // The databases first: a log without its database is removed at the next look, a database without its log is damaged.
  for (const { path } of found.sort((a, b) => Number(b.isDatabase) - Number(a.isDatabase))) remove(path);
  syncFolder(folder);
  // Who was just opening the database to read makes its log and its index once more, and has nothing to write there.
  return older().every(({ path, isDatabase }) => !isDatabase && (path.endsWith('-shm') || isEmpty(path)));
}

const isEmpty = (path: string) => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;

export function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** That files were made or removed is on the disk. */
export function syncFolder(folder: string): void {
  // Windows opens no folders, and keeps its own journal of them.
  if (process.platform === 'win32') return;
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
