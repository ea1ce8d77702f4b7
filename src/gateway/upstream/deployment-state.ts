import { requestRateOf, takeRequest } from '../access/request-rate.ts';
import type { Deployment } from '../catalog/types.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';

/** The first time that a failed deployment is spared, in ms; doubled for each further failure in a row. */
const firstCooldownMs = 1000;
const maxCooldownMs = 30_000;
/** Limit of what a provider asks for with `Retry-After`, in ms. */
const maxRetryAfterMs = 600_000;
/** For a refused credential or an account without credit, which someone has to correct, in ms. */
const refusedCooldownMs = 60_000;

/** Weight of a new measurement in the moving average. */
const latencyWeight = 0.3;
/** Age in ms from which an average no longer counts, and the deployment is measured again. */
const maxLatencyAgeMs = 60_000;

/** What operators see of a deployment. Times are of the wall clock, in RFC 3339. */
export interface DeploymentHealth {
  readonly isBreakerOpen: boolean;
  /** How long it is asked last after a failure, in ms; 0: it is available. */
  readonly cooldownMs: number;
  readonly inFlight: number;
  readonly lastRequestAt: string | undefined;
  /** What the caller would get; never the provider's own words. */
  readonly lastError: { readonly status: number; readonly code: string; readonly at: string } | undefined;
}

type DeploymentLimits = Pick<Deployment, 'requestsPerMinute' | 'concurrency'>;

/** What is known about a provider of a model, for one credential: its health, its load and its speed. */
export class DeploymentState {
  readonly breaker: CircuitBreaker;
  readonly #nowMs: () => number;
  readonly #latencies = { stream: new LatencyAverage(), buffered: new LatencyAverage() };
  #coolUntilMs = -Infinity;
  /** Failures in a row. */
  #failures = 0;
  #inFlight = 0;
  #lastRequestAt: string | undefined;
  #lastError: DeploymentHealth['lastError'];
  /** When the request rate's bucket is full again, in microseconds. */
  #fullAtMicros = 0;

  /** @param nowMs monotonic clock */
  constructor(breaker: CircuitBreaker, nowMs: () => number) {
    this.breaker = breaker;
    this.#nowMs = nowMs;
  }

  get cooldownMs(): number {
    return Math.max(0, this.#coolUntilMs - this.#nowMs());
  }

  get health(): DeploymentHealth {
    return {
      isBreakerOpen: this.breaker.isOpen,
      cooldownMs: Math.ceil(this.cooldownMs),
      inFlight: this.#inFlight,
      lastRequestAt: this.#lastRequestAt,
      lastError: this.#lastError,
    };
  }

  /** Whether no more requests may run at once. */
  isBusy({ concurrency = Infinity }: Partial<DeploymentLimits>): boolean {
    return this.#inFlight >= concurrency;
  }

  /** Takes a place for a request; undefined when the request rate is used up. @returns what frees the place */
  acquire({ requestsPerMinute }: Partial<DeploymentLimits>): (() => void) | undefined {
    if (requestsPerMinute !== undefined) {
      const rate = requestRateOf(requestsPerMinute);
      const fullAt = takeRequest(rate, this.#fullAtMicros, Math.floor(this.#nowMs() * 1000));
      if (fullAt === undefined) return undefined;
      this.#fullAtMicros = fullAt;
    }
    this.#inFlight += 1;
    this.#lastRequestAt = new Date().toISOString();
    let isOpen = true;
    return () => {
      if (isOpen) this.#inFlight -= 1;
      isOpen = false;
    };
  }

  /** Records an answer. @param latencyMs until the first frame of a stream, or the whole of a buffered answer */
  markAnswered(isStream: boolean, latencyMs: number): void {
    this.#failures = 0;
    this.#latencyOf(isStream).add(latencyMs, this.#nowMs());
  }

  /** Records a failure of the deployment: others are preferred for a while. */
  markFailed(failure: UpstreamFailure): void {
    this.#failures += 1;
    const { status, code, type } = failure.error;
    this.#lastError = { status, code: code ?? type, at: new Date().toISOString() };
    this.#coolUntilMs = Math.max(this.#coolUntilMs, this.#nowMs() + this.#cooldownAfter(failure));
  }

  /** Expected time to an answer in ms; -Infinity where a request should measure it, Infinity while one does so first. */
  latencyMs(isStream: boolean): number {
    const latency = this.#latencyOf(isStream);
    const isCurrent = latency.measuredAtMs > this.#nowMs() - maxLatencyAgeMs;
    if (!isCurrent && this.#inFlight === 0) return -Infinity;
    return latency.averageMs;
  }

  #latencyOf(isStream: boolean): LatencyAverage {
    return isStream ? this.#latencies.stream : this.#latencies.buffered;
  }

  #cooldownAfter({ retryAfterMs, isRetryable }: UpstreamFailure): number {
    if (!isRetryable || retryAfterMs === Infinity) return refusedCooldownMs;
    return retryAfterMs === undefined
      ? Math.min(firstCooldownMs * 2 ** (this.#failures - 1), maxCooldownMs)
      : Math.min(retryAfterMs, maxRetryAfterMs);
  }
}

/** Exponentially weighted moving average. */
class LatencyAverage {
  averageMs = Infinity;
  measuredAtMs = -Infinity;

  add(ms: number, nowMs: number): void {
    this.averageMs =
      this.averageMs === Infinity ? ms : this.averageMs + latencyWeight * (ms - this.averageMs);
    this.measuredAtMs = nowMs;
  }
}
