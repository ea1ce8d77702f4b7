import { ObserveError } from './errors.ts';

export interface ConcurrencyLimiterOptions {
  readonly maxConcurrent: number;
  readonly maxWaiting: number;
  /** Maximum time in the queue; default: no limit. */
  readonly waitMs?: number | undefined;
}

/** Limits concurrent operations. Others wait in a first-in-first-out queue with a maximum length and waiting time. */
export class ConcurrencyLimiter {
  readonly #maxConcurrent: number;
  readonly #maxWaiting: number;
  readonly #waitMs: number | undefined;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor({ maxConcurrent, maxWaiting, waitMs }: ConcurrencyLimiterOptions) {
    this.#maxConcurrent = maxConcurrent;
    this.#maxWaiting = maxWaiting;
    this.#waitMs = waitMs;
  }

  /**
   * Runs an operation when it is its turn.
   * @throws ObserveError unavailable, if the queue is full or the wait takes too long
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    await this.#acquire();
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next) next();
      else this.#running -= 1;
    }
  }

  async #acquire(): Promise<void> {
    if (this.#running < this.#maxConcurrent) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.size >= this.#maxWaiting)
      throw busyError(`${this.#maxWaiting} queries are waiting already; try again later`);
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer);
        this.#waiting.delete(enter);
      };
      const enter = () => {
        leave();
        resolve();
      };
      const waitMs = this.#waitMs;
      const timeOut = () => {
        leave();
        reject(busyError(`the query waited ${waitMs} ms for other queries; try again in a moment`));
      };
      const timer = waitMs === undefined ? undefined : setTimeout(timeOut, waitMs);
      this.#waiting.add(enter);
    });
  }
}

const busyError = (message: string) => new ObserveError('unavailable', 'observe_busy', message);
