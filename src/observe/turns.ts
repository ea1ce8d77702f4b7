import { ObserveError } from './errors.ts';

/** Who comes while others are served waits, in the order of coming, and not too many at once. */
export class Turns {
  readonly #atOnce: number;
  readonly #mostWaiting: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor({ atOnce, mostWaiting }: { readonly atOnce: number; readonly mostWaiting: number }) {
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
  }

  /** @throws ObserveError unavailable, where too many wait */
  async take<T>(work: () => Promise<T>): Promise<T> {
    await this.#mine();
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  async #mine(): Promise<void> {
    if (this.#running < this.#atOnce) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= this.#mostWaiting)
      throw new ObserveError(
        'unavailable',
        'observe_busy',
        `${this.#mostWaiting} queries wait already: ask again when some of them are answered`,
      );
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}
