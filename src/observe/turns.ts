import { ObserveError } from './errors.ts';

export interface TurnsOptions {
  readonly atOnce: number;
  readonly mostWaiting: number;
  /** Maximum time in the queue; default: no limit. */
  readonly waitMs?: number | undefined;
}

/** Limits concurrent operations. Others wait in a first-in-first-out queue with a maximum length and waiting time. */
export class Turns {
  readonly #atOnce: number;
  readonly #mostWaiting: number;
  readonly #waitMs: number | undefined;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor({ atOnce, mostWaiting, waitMs }: TurnsOptions) {
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
    this.#waitMs = waitMs;
  }

  /**
   * Runs an operation when it is its turn.
   * @throws ObserveError unavailable, if the queue is full or the wait takes too long
   */
  async take<T>(work: () => Promise<T>): Promise<T> {
    await this.#mine();
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next) next();
      else this.#running -= 1;
    }
  }

  async #mine(): Promise<void> {
    if (this.#running < this.#atOnce) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.size >= this.#mostWaiting)
      throw busy(`${this.#mostWaiting} queries are waiting already; try again later`);
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
      const late = () => {
        leave();
        reject(busy(`the query waited ${waitMs} ms for other queries; try again in a moment`));
      };
      const timer = waitMs === undefined ? undefined : setTimeout(late, waitMs);
      this.#waiting.add(enter);
    });
  }
}

const busy = (message: string) => new ObserveError('unavailable', 'observe_busy', message);
