/** A task that needs exclusive use of the device. */
export interface Interlude {
  run(): Promise<void>;
  refuse(reason: unknown): void;
}

/** Queue of exclusive tasks, which run when there is no other work. */
export class Interludes {
  readonly #waiting: Interlude[] = [];

  get size(): number {
    return this.#waiting.length;
  }

  /**
   * @param signal removes a waiting task and rejects with the signal's reason; a running task must observe the signal
   * itself
   */
  add<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const leave = () => {
        const at = this.#waiting.indexOf(interlude);
        if (at < 0) return;
        this.#waiting.splice(at, 1);
        reject(signal?.reason);
      };
      const interlude: Interlude = {
        run: () => work().then(resolve, reject),
        refuse: reject,
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(interlude);
    });
  }

  next(): Interlude | undefined {
    return this.#waiting.shift();
  }

  refuse(reason: unknown): void {
    for (const interlude of this.#waiting.splice(0)) interlude.refuse(reason);
  }
}
