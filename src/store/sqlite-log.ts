import { closeSync, fdatasync, fdatasyncSync, openSync, realpathSync } from 'node:fs';

/** Sync time below which blocking this thread is cheaper than a second thread, in ms. */
const quickMs = 1;

/**
 * Syncs SQLite's write-ahead log to the disk in another thread. With `synchronous=normal`, SQLite leaves committed data in
 * the kernel's cache, which survives a crash of the process; the sync makes it survive a crash of the machine. SQLite's
 * locks are on other files, so closing this descriptor releases none.
 */
export class SqliteLog {
  readonly #file: number;
  #syncing: Promise<void> | undefined;
  #isQuick = true;

  /** Opens the log of an open database. @param path of the database */
  constructor(path: string) {
    this.#file = openSync(`${realpathSync(path)}-wal`, 'r+');
  }

  /** The running sync; it covers everything committed before it began. */
  get syncing(): Promise<void> | undefined {
    return this.#syncing;
  }

  /** Whether the last sync was fast enough to sync in this thread. */
  get isQuick(): boolean {
    return this.#isQuick;
  }

  /** Syncs everything committed so far; one call at a time. Rejects with Node's error. */
  sync(): Promise<void> {
    const begun = performance.now();
    const syncing = new Promise<void>((resolve, reject) => {
      fdatasync(this.#file, (error) => {
        if (this.#syncing === syncing) this.#syncing = undefined;
        this.#isQuick = performance.now() - begun < quickMs;
        if (error) reject(error);
        else resolve();
      });
    });
    this.#syncing = syncing;
    return syncing;
  }

  /** Same as `sync`, in this thread. */
  syncHere(): void {
    const begun = performance.now();
    fdatasyncSync(this.#file);
    this.#isQuick = performance.now() - begun < quickMs;
  }

  close(): void {
    closeSync(this.#file);
  }
}
