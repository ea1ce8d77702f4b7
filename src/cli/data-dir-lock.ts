import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { errorMessage } from '../util/error-message.ts';
import { StartError } from './start-error.ts';

/** SQLITE_BUSY: another process holds the lock. */
const sqliteBusy = 5;
/** `lockHolder` of another process holds the lock for less than 1 ms. */
const busyTimeoutMs = 100;

/**
 * Locks the data directory for the lifetime of this process. Two hosts on one directory would each close the other's
 * tasks as orphaned. The lock is SQLite's, which is an operating system lock: it ends with the process, also after a
 * kill. `host.pid` next to it only names the holder: on an old Node the process that was started is not the one that
 * serves.
 */
export function lockDataDir(path: string): { release(): void } {
  const pidFile = join(path, 'host.pid');
  try {
    const lock = new DatabaseSync(join(path, 'host.lock'), { timeout: busyTimeoutMs });
    try {
      lock.exec('begin exclusive');
    } catch (error) {
      lock.close();
      throw error;
    }
    writePidFile(pidFile);
    return {
      release() {
        rmSync(pidFile, { force: true });
        lock.close();
      },
    };
  } catch (error) {
    if (isBusy(error)) {
      throw new StartError(
        `another host${processSuffix(pidFile)} uses the data directory ${path}; stop it, or give this host its own directory with --data-dir DIR.`,
      );
    }
    throw new StartError(`cannot lock the data directory ${path}: ${errorMessage(error)}.`);
  }
}

/**
 * The process that holds a data directory, as ` (process 7)`, or an empty string when its id is unknown; undefined when
 * the directory is free. Writes nothing, and holds no lock when it returns.
 */
export function lockHolder(path: string): string | undefined {
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
    if (isBusy(error)) return processSuffix(join(path, 'host.pid'));
    throw new StartError(
      `cannot tell whether a host uses the data directory ${path}: ${errorMessage(error)}. Check its owner and mode, or name the host with --url.`,
    );
  }
}

const isBusy = (error: unknown): boolean => (error as { errcode?: number }).errcode === sqliteBusy;

/** Failing to write it (a full disk) does not prevent the start. */
function writePidFile(pidFile: string): void {
  try {
    writeFileSync(pidFile, `${process.pid}\n`);
  } catch {
    rmSync(pidFile, { force: true });
  }
}

function processSuffix(pidFile: string): string {
  try {
    const pid = readFileSync(pidFile, 'utf8').trim();
    return /^\d+$/.test(pid) ? ` (process ${pid})` : '';
  } catch {
    return '';
  }
}
