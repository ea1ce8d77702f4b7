import { ObserveError } from './errors.ts';

export interface TurnsOptions {
  readonly atOnce: number;
  readonly mostWaiting: number;
  /** The longest wait in the queue, in ms; without, there is no limit. */
  readonly waitMs?: number | undefined;
}

/** Who comes while others are served waits, in the order of coming: not too many at once, and none of them too long. */
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

  /** @throws ObserveError unavailable, where too many wait, or it has waited too long */
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
      throw busy(`${this.#mostWaiting} queries wait already: ask again when some of them are answered`);
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
        reject(busy(`it waited ${waitMs} ms while other queries were answered: ask again in a moment`));
      };
      const timer = waitMs === undefined ? undefined : setTimeout(late, waitMs);
      this.#waiting.add(enter);
    });
  }
}

const busy = (message: string) => new ObserveError('unavailable', 'observe_busy', message);
