interface Waiting {
  readonly id: string;
  readonly admit: () => void;
}

/** The slot for the one run in flight of the host. Waiters get it in FIFO order. */
export class RunSlot {
  #holder: string | undefined;
  #waiting: Waiting[] = [];

  /** Id of the run that holds the slot. */
  get holder(): string | undefined {
    return this.#holder;
  }

  /** Takes the slot if it is free. @returns whether the run holds it now */
  tryTake(id: string): boolean {
    if (this.#holder !== undefined) return false;
    this.#holder = id;
    return true;
  }

  /** Waits for the slot. Rejects with the signal's reason, without holding the slot. */
  async take(id: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.tryTake(id)) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { id, admit: resolve };
    const leave = () => {
      if (!this.#waiting.includes(waiting)) return;
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      reject(signal.reason);
    };
    this.#waiting.push(waiting);
    signal.addEventListener('abort', leave, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Frees the slot, and gives it to the first waiter. */
  free(id: string): void {
    if (this.#holder !== id)
      throw new Error(`the run ${id} frees the slot, which ${this.#holder ?? 'no run'} holds`);
    const next = this.#waiting.shift();
    this.#holder = next?.id;
    next?.admit();
  }
}
