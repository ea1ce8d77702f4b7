import { closeSync, fdatasync, fdatasyncSync, openSync, realpathSync } from 'node:fs';

/** What holding everything else up is worth, in ms. */
const quickMs = 1;

/**
 * Brings SQLite's write-ahead log to the disk from another thread. With `synchronous=normal` SQLite leaves what was
 * committed to the system, which keeps it when the process dies; when this is done it is on the disk, too. Locks stand on
 * the database's other files, so that closing this one gives up none.
 */
export class SqliteLog {
  readonly #file: number;
  #syncing: Promise<void> | undefined;
  #isQuick = true;

  /** The log of an open database. */
  constructor(path: string) {
    this.#file = openSync(`${realpathSync(path)}-wal`, 'r+');
  }

  /** The sync under way, which everything committed before it began waits for. */
  get syncing(): Promise<void> | undefined {
    return this.#syncing;
  }

  /** Whether the disk takes less time than going to another thread and back is worth. */
  get isQuick(): boolean {
    return this.#isQuick;
  }

  /** All that was committed until now. One at a time. Rejects with Node's error. */
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

  /** As `sync`, by this thread. */
  syncHere(): void {
    const begun = performance.now();
    fdatasyncSync(this.#file);
    this.#isQuick = performance.now() - begun < quickMs;
  }

  close(): void {
    closeSync(this.#file);
  }
}
