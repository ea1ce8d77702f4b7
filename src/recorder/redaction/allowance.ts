import process from 'node:process';

/** What it was to be cleaned of takes longer than anybody waits for. */
export class TooSlow extends Error {
  constructor(ms: number) {
    super(
      `the patterns of the rack's policy took more than ${ms} ms for it: make them simpler, so that no match has to be looked for up to the end of a text, or send less at once`,
    );
    this.name = 'TooSlow';
  }
}

/**
 * How long patterns may take. RE2 takes time in proportion to the text for each match; for all matches of an expression
 * that may go on to the end of the text, as `a.*z|b`, that is its square.
 */
export class Allowance {
  readonly #ms: number;
  readonly #begun = performance.now();
  readonly #computed = computed();

  /** @param ms of computing on this thread, whatever else the machine does meanwhile */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** @throws TooSlow */
  check(): void {
    // The clock is quicker to ask, and never behind.
    if (performance.now() - this.#begun < this.#ms) return;
    if (computed() - this.#computed >= this.#ms) throw new TooSlow(this.#ms);
  }
}

/** What this thread has computed so far, in ms. */
function computed(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
