import { type Store, StoreError, type Tx } from '../../store/index.ts';

/** Jobs in one transaction. */
const most = 256;

/** A write that is stored completely or not at all. */
export interface Job {
  readonly write: (tx: Tx, ts: string) => Promise<void>;
  /** Gets a transaction of its own, because it may fail on its own. */
  readonly alone: boolean;
  /** Called when the write is durable. */
  readonly done: () => void;
  /** Called before each attempt: a transaction may be rolled back and repeated. */
  readonly begin: () => void;
  /** Called when nothing was written. With `storage_unsure` the write may have been stored. */
  readonly failed: (error: unknown) => void;
}

/**
 * Writes jobs in the order of their arrival. Jobs that arrive while a transaction is being committed form the next
 * transaction.
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

  /** Retries the jobs of a failed transaction one by one, so that one stream's failure loses no events of another. */
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

/** Whether the transaction may have been committed. */
export const isUnsure = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_unsure';
