import type { Limits } from '../config/types.ts';

export interface BreakerOptions {
  /** Read at each use, because a reload may change them. */
  readonly limits: Pick<Limits, 'breakerFailures' | 'breakerSecs'>;
  /** Monotonic clock, in ms. */
  readonly nowMs: () => number;
  /** Called when it opens, and when a probe closes it. */
  readonly onChange?: (isOpen: boolean) => void;
}

/** Permission to send one request to a model. Call one of the three methods once, with the result. */
export interface BreakerTicket {
  /** Whether this request tests a model whose breaker is open. A probe is not retried. */
  readonly isProbe: boolean;
  markSucceeded(): void;
  markFailed(): void;
  /** The result says nothing about the model's health. */
  discard(): void;
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

interface RequestOutcome {
  readonly recordedAt: number;
  readonly failed: boolean;
}

/**
 * Circuit breaker of one model of a provider. It opens when most requests of several callers fail; failures of a single
 * caller do not open it. While it is open, no requests are sent. After
 * `breakerSecs`, one request at a time is sent as a probe,
 * which closes the breaker or opens it again.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  readonly #outcomes = new Map<string, RequestOutcome[]>();
  #openUntil: number | undefined;
  /** Start time of the running probe. */
  #probeStartedAt: number | undefined;
  /** Counts state changes. Results of requests from an earlier state are ignored. */
  #epoch = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#openUntil !== undefined;
  }

  /** Returns a ticket, or the time until one may be available. */
  acquire(callerId: string): BreakerTicket | { readonly retryInMs: number } {
    if (this.#openUntil === undefined) return this.#closedTicket(callerId);
    const now = this.#options.nowMs();
    const retryInMs = Math.max(this.#openUntil, (this.#probeStartedAt ?? -Infinity) + probeMs) - now;
    return retryInMs > 0 ? { retryInMs } : this.#probeTicket(now);
  }

  #closedTicket(callerId: string): BreakerTicket {
    const epoch = this.#epoch;
    const report = (failed: boolean) => () => {
      if (epoch === this.#epoch) this.#recordOutcome(callerId, failed);
    };
    return {
      isProbe: false,
      markSucceeded: report(false),
      markFailed: report(true),
      discard: () => undefined,
    };
  }

  #probeTicket(now: number): BreakerTicket {
    const epoch = this.#epoch;
    this.#probeStartedAt = now;
    const report = (change: () => void) => () => {
      if (epoch === this.#epoch) change();
    };
    return {
      isProbe: true,
      markSucceeded: report(() => {
        this.#epoch += 1;
        this.#openUntil = this.#probeStartedAt = undefined;
        this.#outcomes.clear();
        this.#options.onChange?.(false);
      }),
      markFailed: report(() => this.#openBreaker()),
      // The next request becomes the probe, unless another probe has started since.
      discard: report(() => {
        if (this.#probeStartedAt === now) this.#probeStartedAt = undefined;
      }),
    };
  }

  #recordOutcome(callerId: string, failed: boolean): void {
    const recordedAt = this.#options.nowMs();
    const known = this.#outcomes.get(callerId);
    if (known) known.push({ recordedAt, failed });
    else this.#outcomes.set(callerId, [{ recordedAt, failed }]);
    if (known && known.length > maxOutcomes) known.shift();
    if (failed || this.#outcomes.size > maxCallers) this.#removeOldOutcomes(recordedAt - windowMs);
    if (failed && this.#isFailing()) this.#openBreaker();
  }

  #removeOldOutcomes(cutoffMs: number): void {
    for (const [callerId, outcomes] of this.#outcomes) {
      const recent = outcomes.filter(({ recordedAt }) => recordedAt > cutoffMs);
      if (recent.length > 0) this.#outcomes.set(callerId, recent);
      else this.#outcomes.delete(callerId);
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
      failed >= this.#options.limits.breakerFailures &&
      failed >= requests * failureRate &&
      failingCallers >= Math.max(minFailingCallers, this.#outcomes.size * failureRate)
    );
  }

  #openBreaker(): void {
    const wasOpen = this.isOpen;
    this.#epoch += 1;
    this.#openUntil = this.#options.nowMs() + this.#options.limits.breakerSecs * 1000;
    this.#probeStartedAt = undefined;
    this.#outcomes.clear();
    if (!wasOpen) this.#options.onChange?.(true);
  }
}
