interface SlotWaiter {
  readonly id: string;
  readonly admit: () => void;
}

/** The slot for the one run in flight of the host. Waiters get it in FIFO order. */
export class RunSlot {
  #holder: string | undefined;
  #waiters: SlotWaiter[] = [];

  /** Id of the run that holds the slot. */
  get holder(): string | undefined {
    return this.#holder;
  }

  /** Takes the slot if it is free. @returns whether the run holds it now */
  tryAcquire(id: string): boolean {
    if (this.#holder !== undefined) return false;
    this.#holder = id;
    return true;
  }

  /** Waits for the slot. Rejects with the signal's reason, without holding the slot. */
  async acquire(id: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.tryAcquire(id)) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: SlotWaiter = { id, admit: resolve };
    const onAbort = () => {
      if (!this.#waiters.includes(waiter)) return;
      this.#waiters = this.#waiters.filter((other) => other !== waiter);
      reject(signal.reason);
    };
    this.#waiters.push(waiter);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Frees the slot, and gives it to the first waiter. */
  release(id: string): void {
    if (this.#holder !== id)
      throw new Error(`the run ${id} frees the slot, which ${this.#holder ?? 'no run'} holds`);
    const next = this.#waiters.shift();
    this.#holder = next?.id;
    next?.admit();
  }
}
