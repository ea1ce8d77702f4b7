/** A task that needs exclusive use of the device. */
export interface ExclusiveTask {
  run(): Promise<void>;
  cancel(reason: unknown): void;
}

/** Queue of exclusive tasks, which run when there is no other work. */
export class ExclusiveQueue {
  readonly #waiting: ExclusiveTask[] = [];

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
      const removeWaiting = () => {
        const at = this.#waiting.indexOf(task);
        if (at < 0) return;
        this.#waiting.splice(at, 1);
        reject(signal?.reason);
      };
      const task: ExclusiveTask = {
        run: () => work().then(resolve, reject),
        cancel: reject,
      };
      signal?.addEventListener('abort', removeWaiting, { once: true });
      this.#waiting.push(task);
    });
  }

  takeNext(): ExclusiveTask | undefined {
    return this.#waiting.shift();
  }

  cancelAll(reason: unknown): void {
    for (const task of this.#waiting.splice(0)) task.cancel(reason);
  }
}
