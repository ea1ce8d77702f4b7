interface Waiting {
  readonly id: string;
  readonly admit: () => void;
}

/** The host's one place for a run in flight. Who waits for it gets it in the order of coming. */
export class RunSlot {
  #holder: string | undefined;
  #waiting: Waiting[] = [];

  /** The run that has it. */
  get holder(): string | undefined {
    return this.#holder;
  }

  /** Whether the run has it now; false where another one has it. */
  tryTake(id: string): boolean {
    if (this.#holder !== undefined) return false;
    this.#holder = id;
    return true;
  }

  /** Waits for its turn; rejects with the signal's reason, and then has nothing. */
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

  /** Hands it to who has waited longest. */
  free(id: string): void {
    if (this.#holder !== id)
      throw new Error(`the run ${id} frees the slot that ${this.#holder ?? 'nobody'} has`);
    const next = this.#waiting.shift();
    this.#holder = next?.id;
    next?.admit();
  }
}
