import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { DatabaseSync } from 'node:sqlite';
import { messageOf, StartError } from './start-error.ts';

/** SQLite's code for a file that another process holds. */
const busy = 5;

/**
 * Takes the data directory for this process, for as long as it lives: two hosts on one would end each other's tasks as
 * left behind. SQLite's lock is the operating system's own, which nobody holds any more after a kill. `host.pid` beside
 * it only tells who has it: on an old Node the process that was started is not the one that serves.
 */
export function lockDataDir(path: string): { release(): void } {
  const pidFile = join(path, 'host.pid');
  try {
    const lock = new DatabaseSync(join(path, 'host.lock'), { timeout: 0 });
    try {
      lock.exec('begin exclusive');
    } catch (error) {
      lock.close();
      throw error;
    }
    tell(pidFile);
    return {
      release() {
        rmSync(pidFile, { force: true });
        lock.close();
      },
    };
  } catch (error) {
    if ((error as { errcode?: number }).errcode === busy) {
      throw new StartError(
        `another host${processOf(pidFile)} uses the data directory ${path}; stop it, or give this one its own with --data-dir DIR.`,
      );
    }
    throw new StartError(`the data directory ${path} cannot be locked: ${messageOf(error)}.`);
  }
}

/** A full disk keeps nobody from starting. */
function tell(pidFile: string): void {
  try {
    writeFileSync(pidFile, `${process.pid}\n`);
  } catch {
    rmSync(pidFile, { force: true });
  }
}

function processOf(pidFile: string): string {
  try {
    const pid = readFileSync(pidFile, 'utf8').trim();
    return /^\d+$/.test(pid) ? ` (process ${pid})` : '';
  } catch {
    return '';
  }
}
