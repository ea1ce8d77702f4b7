export interface BreakerOptions {
  /** Failed requests within the window, below which it never opens. */
  readonly failures: number;
  readonly openMs: number;
  /** In ms, monotonic. */
  readonly now: () => number;
}

/** Leave to ask a model, and how it went; one of the three, once. */
export interface BreakerTicket {
  /** Asked to see whether it is well again: once, without retries. */
  readonly isProbe: boolean;
  succeeded(): void;
  failed(): void;
  /** It says nothing of the model's health. */
  dropped(): void;
}

/** How long an outcome counts. */
const windowMs = 30_000;
/** Outcomes of one caller that count: a busy one does not outweigh the others. */
const maxOutcomes = 20;
const minFailingCallers = 2;
/** Share of the requests, and of the callers, that must fail. */
const failureRate = 0.5;
/** A probe that takes longer does not hold up the next one. */
const probeMs = 5000;
/** Callers that are remembered before those of which nothing counts any more are looked for. */
const maxCallers = 1000;

interface Outcome {
  readonly at: number;
  readonly failed: boolean;
}

/**
 * Stands between us and one model of a provider. It opens when most requests fail, those of several callers: what only one
 * caller's requests come to is no reason to refuse the others'. Nobody asks for a while then; after that one request at a
 * time goes through to see, and closes it or opens it again.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #outcomes = new Map<string, Outcome[]>();
  #openUntil: number | undefined;
  /** When the last probe began, as long as it is under way. */
  #probing: number | undefined;
  /** Counts openings and closings: what began before says nothing about what is now. */
  #phase = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#openUntil !== undefined;
  }

  /** Leave, or for how long there is none, in ms. */
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
      // The next one tries, where none has begun since.
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
