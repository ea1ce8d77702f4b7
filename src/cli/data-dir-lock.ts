import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { errorMessage } from '../util/error-message.ts';
import { StartError } from './start-error.ts';

/** SQLite's code for a file that another process holds. */
const busy = 5;
/** In ms: whoever looks (`holderOf`) is in the way for less than one. */
const patience = 100;

/**
 * Takes the data directory for this process, for as long as it lives: two hosts on one would end each other's tasks as
 * left behind. SQLite's lock is the operating system's own, which nobody holds any more after a kill. `host.pid` beside
 * it only tells who has it: on an old Node the process that was started is not the one that serves.
 */
export function lockDataDir(path: string): { release(): void } {
  const pidFile = join(path, 'host.pid');
  try {
    const lock = new DatabaseSync(join(path, 'host.lock'), { timeout: patience });
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
    if (isBusy(error)) {
      throw new StartError(
        `another host${processOf(pidFile)} uses the data directory ${path}; stop it, or give this one its own with --data-dir DIR.`,
      );
    }
    throw new StartError(`the data directory ${path} cannot be locked: ${errorMessage(error)}.`);
  }
}

/**
 * Who has a data directory, as ` (process 7)` or without a number; undefined where nobody has it. Nothing is written, and
 * nothing is held when it returns.
 */
export function holderOf(path: string): string | undefined {
  const file = join(path, 'host.lock');
  if (!existsSync(file)) return undefined;
  try {
    const lock = new DatabaseSync(`${pathToFileURL(file).href}?mode=ro`, { readOnly: true, timeout: 0 });
    try {
      lock.prepare('select count(*) from sqlite_schema').get();
      return undefined;
    } finally {
      lock.close();
    }
  } catch (error) {
    if (isBusy(error)) return processOf(join(path, 'host.pid'));
    throw new StartError(
      `whether a host has the data directory ${path} cannot be told: ${errorMessage(error)}. Check its owner and mode, or name the host with --url.`,
    );
  }
}

const isBusy = (error: unknown): boolean => (error as { errcode?: number }).errcode === busy;

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
