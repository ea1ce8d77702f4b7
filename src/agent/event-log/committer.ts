import { type Store, StoreError, type Tx } from '../../store/index.ts';

/** Jobs of one transaction. */
const most = 256;

/** What is written together or not at all. */
export interface Job {
  readonly write: (tx: Tx, ts: string) => Promise<void>;
  /** It may fail by itself, and so has a transaction of its own. */
  readonly alone: boolean;
  /** It is on the disk. */
  readonly done: () => void;
  /** Before each try: the database may give a transaction up and do it again, and nothing of the last try is there. */
  readonly begin: () => void;
  /** Nothing of it was written, unless the error is `storage_unsure`. */
  readonly failed: (error: unknown) => void;
}

/**
 * Writes jobs in the order they came. While one transaction is on its way to the disk, what comes meanwhile gathers for
 * the next.
 */
export class Committer {
  readonly #store: Store;
  #queue: Job[] = [];
  #running = false;

  constructor(store: Store) {
    this.#store = store;
  }

  submit(job: Job): void {
    this.#queue.push(job);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#queue.length > 0) {
      const alone = this.#queue.findIndex((job) => job.alone);
      const count = alone === 0 ? 1 : Math.min(alone === -1 ? most : alone, most);
      const jobs = this.#queue.slice(0, count);
      this.#queue = this.#queue.slice(count);
      const failure = await this.#write(jobs);
      if (!failure) for (const { done } of jobs) done();
      else if (jobs.length === 1 || isUnsure(failure.error))
        for (const { failed } of jobs) failed(failure.error);
      else await this.#apart(jobs);
    }
    this.#running = false;
  }

  /** What broke together may be well by itself: no stream loses lines by another. */
  async #apart(jobs: readonly Job[]): Promise<void> {
    for (const job of jobs) {
      const failure = await this.#write([job]);
      if (failure) job.failed(failure.error);
      else job.done();
    }
  }

  async #write(jobs: readonly Job[]): Promise<{ readonly error: unknown } | undefined> {
    try {
      await this.#store.transaction(async (tx) => {
        const ts = this.#store.time();
        for (const { begin } of jobs) begin();
        for (const { write } of jobs) await write(tx, ts);
      });
      return undefined;
    } catch (error) {
      return { error };
    }
  }
}

/** All of it may be there, or nothing. */
export const isUnsure = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_unsure';
