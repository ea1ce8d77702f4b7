/** A request that is not over yet: its answer is on the way, or its money is not settled. */
interface Open {
  readonly over: Promise<unknown>;
  readonly stop: () => void;
}

/** What a gateway has to finish before it ends. */
export class InFlight {
  readonly #open = new Set<Open>();
  #stopping = false;

  /** Whether what is open is being ended. */
  get stopping(): boolean {
    return this.#stopping;
  }

  get size(): number {
    return this.#open.size;
  }

  /** @param stop ends it */
  add(over: Promise<unknown>, stop: () => void): void {
    const one = { over, stop };
    this.#open.add(one);
    void over.finally(() => this.#open.delete(one)).catch(() => undefined);
    if (this.#stopping) stop();
  }

  /** Lets what is open finish for `graceMs`, then ends it; resolves when all of it is settled. */
  async drain(graceMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#stopping = true;
      for (const { stop } of this.#open) stop();
    }, graceMs);
    while (this.#open.size > 0) await Promise.allSettled([...this.#open].map(({ over }) => over));
    clearTimeout(timer);
  }
}
