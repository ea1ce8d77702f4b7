import { type Store, StoreError, type Tx } from '../../store/index.ts';

/** Jobs in one transaction. */
const maxJobsPerTransaction = 256;

/** A write that is stored completely or not at all. */
export interface WriteJob {
  readonly write: (tx: Tx, ts: string) => Promise<void>;
  /** Gets a transaction of its own, because it may fail on its own. */
  readonly isExclusive: boolean;
  /** Called when the write is durable. */
  readonly onDone: () => void;
  /** Called before each attempt: a transaction may be rolled back and repeated. */
  readonly onAttempt: () => void;
  /** Called when nothing was written. With `storage_unsure` the write may have been stored. */
  readonly onFailed: (error: unknown) => void;
}

/**
 * Writes jobs in the order of their arrival. Jobs that arrive while a transaction is being committed form the next
 * transaction.
 */
export class Committer {
  readonly #store: Store;
  #queue: WriteJob[] = [];
  #running = false;

  constructor(store: Store) {
    this.#store = store;
  }

  submit(job: WriteJob): void {
    this.#queue.push(job);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#queue.length > 0) {
      const firstExclusive = this.#queue.findIndex((job) => job.isExclusive);
      const count =
        firstExclusive === 0
          ? 1
          : Math.min(firstExclusive === -1 ? maxJobsPerTransaction : firstExclusive, maxJobsPerTransaction);
      const jobs = this.#queue.slice(0, count);
      this.#queue = this.#queue.slice(count);
      const failure = await this.#write(jobs);
      if (!failure) for (const { onDone } of jobs) onDone();
      else if (jobs.length === 1 || isCommitUncertain(failure.error))
        for (const { onFailed } of jobs) onFailed(failure.error);
      else await this.#writeSeparately(jobs);
    }
    this.#running = false;
  }

  /** Retries the jobs of a failed transaction one by one, so that one stream's failure loses no events of another. */
  async #writeSeparately(jobs: readonly WriteJob[]): Promise<void> {
    for (const job of jobs) {
      const failure = await this.#write([job]);
      if (failure) job.onFailed(failure.error);
      else job.onDone();
    }
  }

  async #write(jobs: readonly WriteJob[]): Promise<{ readonly error: unknown } | undefined> {
    try {
      await this.#store.transaction(async (tx) => {
        const ts = this.#store.time();
        for (const { onAttempt } of jobs) onAttempt();
        for (const { write } of jobs) await write(tx, ts);
      });
      return undefined;
    } catch (error) {
      return { error };
    }
  }
}

/** Whether the transaction may have been committed. */
export const isCommitUncertain = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'storage_unsure';
