const windowSeconds = 10;

/** Average events per second over the last ten whole seconds, or over the time since startup where that is shorter. */
export class TokenRate {
  readonly #now: () => number;
  readonly #startedAt: number;
  /** Counts by second, modulo the size of the window and the current second. */
  readonly #counts = Array.from({ length: windowSeconds + 1 }, () => 0);
  #second: number;

  /** @param now monotonic time in ms */
  constructor(now: () => number) {
    this.#now = now;
    this.#startedAt = now();
    this.#second = Math.floor(this.#startedAt / 1000);
  }

  add(): void {
    this.#advance();
    const at = this.#second % this.#counts.length;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
  }

  get perSecond(): number {
    this.#advance();
    const elapsed = (this.#now() - this.#startedAt) / 1000;
    const total = this.#counts.reduce((sum, count) => sum + count, 0);
    const current = this.#counts[this.#second % this.#counts.length] ?? 0;
    // The current second is incomplete, so it only counts before the first second is over.
    if (elapsed < 1) return total;
    return (total - current) / Math.min(windowSeconds, Math.ceil(elapsed));
  }

  /** Clears the counts of the seconds that passed since the last call. */
  #advance(): void {
    const second = Math.floor(this.#now() / 1000);
    const { length } = this.#counts;
    for (let passed = Math.min(second - this.#second, length); passed > 0; passed--)
      this.#counts[(second - passed + 1) % length] = 0;
    this.#second = second;
  }
}
