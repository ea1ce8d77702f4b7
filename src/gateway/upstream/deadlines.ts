export interface TimeLimits {
  /** For the whole answer. */
  readonly totalMs: number;
  /** Without data, while the reader waits for it. */
  readonly idleMs: number;
}

/**
 * The time limits of one answer, with one timer that is set again only when it fires, so that each chunk costs one reading
 * of the clock. Idle time counts only while the reader waits: a slow reader is not the provider's fault.
 */
export class Deadlines {
  readonly #limits: TimeLimits;
  readonly #expire: (limit: keyof TimeLimits) => void;
  readonly #deadlineAt: number;
  #activity: number;
  #isReaderWaiting = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: TimeLimits, expire: (limit: keyof TimeLimits) => void) {
    this.#limits = limits;
    this.#expire = expire;
    this.#activity = performance.now();
    this.#deadlineAt = this.#activity + limits.totalMs;
    this.#schedule(this.#activity);
  }

  /** Data arrived. */
  activity(): void {
    this.#activity = performance.now();
  }

  startWaiting(): void {
    if (this.#isReaderWaiting) return;
    this.#isReaderWaiting = true;
    this.#activity = performance.now();
  }

  stopWaiting(): void {
    this.#isReaderWaiting = false;
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  #schedule(now: number): void {
    const idleEnd = (this.#isReaderWaiting ? this.#activity : now) + this.#limits.idleMs;
    this.#timer = setTimeout(() => this.#check(), Math.max(1, Math.min(this.#deadlineAt, idleEnd) - now));
  }

  #check(): void {
    const now = performance.now();
    if (now >= this.#deadlineAt) this.#expire('totalMs');
    else if (this.#isReaderWaiting && now - this.#activity >= this.#limits.idleMs) this.#expire('idleMs');
    else this.#schedule(now);
  }
}
