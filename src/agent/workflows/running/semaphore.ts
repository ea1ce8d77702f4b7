/** Lets a number of pieces of work run at the same time; the others wait in FIFO order. */
export class Semaphore {
  #free: number;
  readonly #waiters: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((admit) => this.#waiters.push(admit));
    try {
      return await work();
    } finally {
      const next = this.#waiters.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
