import process from 'node:process';

/** Redaction exceeded its time budget. */
export class RedactionTimeoutError extends Error {
  constructor(ms: number) {
    super(
      `the redaction patterns of the rack's policy took more than ${ms} ms; simplify them so that no match can extend to the end of a text, or send less at once`,
    );
    this.name = 'RedactionTimeoutError';
  }
}

/**
 * CPU time budget of redaction. RE2 finds one match in time proportional to the text. Finding all matches of an
 * expression that can extend to the end of the text, such as `a.*z|b`, takes quadratic time.
 */
export class TimeBudget {
  readonly #ms: number;
  readonly #startedAtMs = performance.now();
  readonly #threadCpuMs = threadCpuMs();

  /** @param ms CPU time of this thread; time spent by other work of the machine does not count */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** @throws RedactionTimeoutError */
  assertNotExceeded(): void {
    // Wall time is cheaper to read and never less than CPU time.
    if (performance.now() - this.#startedAtMs < this.#ms) return;
    if (threadCpuMs() - this.#threadCpuMs >= this.#ms) throw new RedactionTimeoutError(this.#ms);
  }
}

/** CPU time of this thread so far, in ms. */
function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
