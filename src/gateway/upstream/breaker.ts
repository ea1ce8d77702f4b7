export interface BreakerOptions {
  /** Minimum number of failed requests within the window that opens the breaker. */
  readonly failures: number;
  readonly openMs: number;
  /** Monotonic clock, in ms. */
  readonly now: () => number;
}

/** Permission to send one request to a model. Call one of the three methods once, with the result. */
export interface BreakerTicket {
  /** Whether this request tests a model whose breaker is open. A probe is not retried. */
  readonly isProbe: boolean;
  succeeded(): void;
  failed(): void;
  /** The result says nothing about the model's health. */
  dropped(): void;
}

/** How long an outcome counts, in ms. */
const windowMs = 30_000;
/** Limit of counted outcomes per caller, so that a busy caller does not outweigh the others. */
const maxOutcomes = 20;
const minFailingCallers = 2;
/** Fraction of the requests, and of the callers, that must fail. */
const failureRate = 0.5;
/** After this time the next probe may start, even if the last one has not ended, in ms. */
const probeMs = 5000;
/** Number of callers above which callers without recent outcomes are removed. */
const maxCallers = 1000;

interface Outcome {
  readonly at: number;
  readonly failed: boolean;
}

/**
 * Circuit breaker of one model of a provider. It opens when most requests of several callers fail; failures of a single
 * caller do not open it. While it is open, no requests are sent. After `openMs`, one request at a time is sent as a probe,
 * which closes the breaker or opens it again.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #outcomes = new Map<string, Outcome[]>();
  #openUntil: number | undefined;
  /** Start time of the running probe. */
  #probing: number | undefined;
  /** Counts state changes. Results of requests from an earlier state are ignored. */
  #phase = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#openUntil !== undefined;
  }

  /** Returns a ticket, or the time until one may be available. */
  enter(caller: string): BreakerTicket | { readonly restMs: number } {
    if (this.#openUntil === undefined) return this.#usual(caller);
    const now = this.#options.now();
    const restMs = Math.max(this.#openUntil, (this.#probing ?? -Infinity) + probeMs) - now;
    return restMs > 0 ? { restMs } : this.#probe(now);
  }

  #usual(caller: string): BreakerTicket {
    const phase = this.#phase;
    const told = (failed: boolean) => () => {
      if (phase === this.#phase) this.#count(caller, failed);
    };
    return { isProbe: false, succeeded: told(false), failed: told(true), dropped: () => undefined };
  }

  #probe(now: number): BreakerTicket {
    const phase = this.#phase;
    this.#probing = now;
    const told = (change: () => void) => () => {
      if (phase === this.#phase) change();
    };
    return {
      isProbe: true,
      succeeded: told(() => {
        this.#phase += 1;
        this.#openUntil = this.#probing = undefined;
        this.#outcomes.clear();
      }),
      failed: told(() => this.#open()),
      // The next request becomes the probe, unless another probe has started since.
      dropped: told(() => {
        if (this.#probing === now) this.#probing = undefined;
      }),
    };
  }

  #count(caller: string, failed: boolean): void {
    const at = this.#options.now();
    const known = this.#outcomes.get(caller);
    if (known) known.push({ at, failed });
    else this.#outcomes.set(caller, [{ at, failed }]);
    if (known && known.length > maxOutcomes) known.shift();
    if (failed || this.#outcomes.size > maxCallers) this.#forget(at - windowMs);
    if (failed && this.#isFailing()) this.#open();
  }

  #forget(before: number): void {
    for (const [caller, outcomes] of this.#outcomes) {
      const recent = outcomes.filter(({ at }) => at > before);
      if (recent.length > 0) this.#outcomes.set(caller, recent);
      else this.#outcomes.delete(caller);
    }
  }

  #isFailing(): boolean {
    let [requests, failed, failingCallers] = [0, 0, 0];
    for (const outcomes of this.#outcomes.values()) {
      const failures = outcomes.filter((outcome) => outcome.failed).length;
      requests += outcomes.length;
      failed += failures;
      if (failures >= outcomes.length * failureRate) failingCallers += 1;
    }
    return (
      failed >= this.#options.failures &&
      failed >= requests * failureRate &&
      failingCallers >= Math.max(minFailingCallers, this.#outcomes.size * failureRate)
    );
  }

  #open(): void {
    this.#phase += 1;
    this.#openUntil = this.#options.now() + this.#options.openMs;
    this.#probing = undefined;
    this.#outcomes.clear();
  }
}
