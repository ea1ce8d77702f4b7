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
  readonly #expire: (what: keyof TimeLimits) => void;
  readonly #end: number;
  #news: number;
  #waiting = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: TimeLimits, expire: (what: keyof TimeLimits) => void) {
    this.#limits = limits;
    this.#expire = expire;
    this.#news = performance.now();
    this.#end = this.#news + limits.totalMs;
    this.#set(this.#news);
  }

  /** Data arrived. */
  news(): void {
    this.#news = performance.now();
  }

  wait(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.#news = performance.now();
  }

  rest(): void {
    this.#waiting = false;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #set(now: number): void {
    const idleEnd = (this.#waiting ? this.#news : now) + this.#limits.idleMs;
    this.#timer = setTimeout(() => this.#ring(), Math.max(1, Math.min(this.#end, idleEnd) - now));
  }

  #ring(): void {
    const now = performance.now();
    if (now >= this.#end) this.#expire('totalMs');
    else if (this.#waiting && now - this.#news >= this.#limits.idleMs) this.#expire('idleMs');
    else this.#set(now);
  }
}
