import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { messageOf, StartError } from './start-error.ts';

/** SQLite's code for a file that another process holds. */
const busy = 5;

/**
 * Takes the data directory for this process, for as long as it lives: two hosts on one would end each other's tasks as
 * left behind. SQLite's lock is the operating system's own, which nobody holds any more after a kill.
 */
export function lockDataDir(path: string): { release(): void } {
  try {
    const lock = new DatabaseSync(join(path, 'host.lock'), { timeout: 0 });
    try {
      lock.exec('begin exclusive');
    } catch (error) {
      lock.close();
      throw error;
    }
    return { release: () => lock.close() };
  } catch (error) {
    if ((error as { errcode?: number }).errcode === busy) {
      throw new StartError(
        `another host uses the data directory ${path}; stop it, or give this one its own with --data-dir DIR.`,
      );
    }
    throw new StartError(`the data directory ${path} cannot be locked: ${messageOf(error)}.`);
  }
}
