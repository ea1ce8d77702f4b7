import { closeSync, fdatasync, fdatasyncSync, openSync, realpathSync } from 'node:fs';

/** Sync time below which blocking this thread is cheaper than a second thread, in ms. */
const fastSyncMs = 1;

/**
 * Syncs SQLite's write-ahead log to the disk in another thread. With `synchronous=normal`, SQLite leaves committed data in
 * the kernel's cache, which survives a crash of the process; the sync makes it survive a crash of the machine. SQLite's
 * locks are on other files, so closing this descriptor releases none.
 */
export class SqliteLog {
  readonly #file: number;
  #runningSync: Promise<void> | undefined;
  #isFast = true;

  /** Opens the log of an open database. @param path of the database */
  constructor(path: string) {
    this.#file = openSync(`${realpathSync(path)}-wal`, 'r+');
  }

  /** The running sync; it covers everything committed before it began. */
  get runningSync(): Promise<void> | undefined {
    return this.#runningSync;
  }

  /** Set while a running sync does not cover all commits; syncs the others. */
  flush: (() => Promise<void>) | undefined;

  /** Whether the last sync was fast enough to sync in this thread. */
  get isFast(): boolean {
    return this.#isFast;
  }

  /** Syncs everything committed so far; one call at a time. Rejects with Node's error. */
  sync(): Promise<void> {
    const startedAt = performance.now();
    const runningSync = new Promise<void>((resolve, reject) => {
      fdatasync(this.#file, (error) => {
        if (this.#runningSync === runningSync) this.#runningSync = undefined;
        this.#isFast = performance.now() - startedAt < fastSyncMs;
        if (error) reject(error);
        else resolve();
      });
    });
    this.#runningSync = runningSync;
    return runningSync;
  }

  /** Same as `sync`, in this thread. */
  syncInline(): void {
    const startedAt = performance.now();
    fdatasyncSync(this.#file);
    this.#isFast = performance.now() - startedAt < fastSyncMs;
  }

  close(): void {
    closeSync(this.#file);
  }
}
