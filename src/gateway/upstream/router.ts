import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { pause } from '../../util/pause.ts';
import type { Candidate } from '../catalog/types.ts';
import type { Limits } from '../config/types.ts';
import { Breaker, type BreakerTicket } from './breaker.ts';
import { nameOf } from './destination.ts';
import { ProviderFaults } from './faults.ts';
import { type Attempt, type Router, Unaskable } from './types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** A provider that asks for a longer delay (`Retry-After`) is not retried, in ms. */
const longestPauseMs = 10_000;
const firstPauseMs = 250;
/** Breakers of callers' own credentials that are kept. */
const mostCallers = 10_000;

/** The result of an attempt. */
export interface AttemptReport extends Attempt {
  readonly failure?: UpstreamFailure;
  /** Delay before the next attempt on the same candidate; undefined when there is none. */
  readonly pauseMs?: number;
}

export interface UpstreamRouterOptions {
  readonly limits: Pick<Limits, 'retries' | 'breakerFailures' | 'breakerSecs'>;
  readonly onAttempt?: (report: AttemptReport) => void;
  /** Monotonic clock, in ms. */
  readonly now?: () => number;
  /** Returns a number from 0 to below 1. */
  readonly random?: () => number;
}

export class UpstreamRouter implements Router {
  readonly #options: UpstreamRouterOptions & { readonly now: () => number; readonly random: () => number };
  readonly #ofHouse = new Map<string, Breaker>();
  readonly #ofCallers = new LRUCache<string, Breaker>({ max: mostCallers });

  constructor(options: UpstreamRouterOptions) {
    this.#options = { now: () => performance.now(), random: Math.random, ...options };
  }

  async run<T>(
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<T>,
    signal: AbortSignal,
    caller: string,
  ): Promise<T> {
    let n = 0;
    let last: UpstreamFailure | undefined;
    let soonest: { readonly restMs: number; readonly candidate: Candidate } | undefined;
    for (const [place, candidate] of candidates.entries()) {
      signal.throwIfAborted();
      const breaker = this.#breakerOf(candidate);
      const ticket = breaker.enter(caller);
      if ('restMs' in ticket) {
        const { restMs } = ticket;
        if (!soonest || restMs < soonest.restMs) soonest = { restMs, candidate };
        continue;
      }
      for (let tries = 0; ; tries += 1) {
        const about: Attempt = { candidate, n, place };
        n += 1;
        try {
          const result = await attempt(about);
          ticket.succeeded();
          this.#options.onAttempt?.(about);
          return result;
        } catch (error) {
          if (error instanceof Unaskable) {
            ticket.dropped();
            break;
          }
          if (signal.aborted || !(error instanceof UpstreamFailure)) {
            ticket.dropped();
            throw error;
          }
          // When the breaker is open, retries would only add load.
          const more = error.again && tries < this.#options.limits.retries && !breaker.isOpen;
          const pauseMs = more ? this.#pause(tries, error) : undefined;
          // The breaker counts a request once, however many attempts it had.
          if (pauseMs === undefined) judge(error, ticket);
          this.#options.onAttempt?.({
            ...about,
            failure: error,
            ...(pauseMs === undefined ? {} : { pauseMs }),
          });
          if (!error.again) throw error;
          last = error;
          if (pauseMs === undefined) break;
          try {
            if (pauseMs > 0) await pause(pauseMs, signal);
          } catch (left) {
            ticket.dropped();
            throw left;
          }
        }
      }
    }
    if (last) throw last;
    if (!soonest) throw new Error('no candidates');
    const { model } = soonest.candidate;
    throw new ProviderFaults(nameOf(soonest.candidate)).resting(model.id, soonest.restMs);
  }

  /** Retry delay in ms: the provider's `Retry-After`, or exponential backoff; undefined when it would be too long. */
  #pause(tries: number, { retryAfterMs }: UpstreamFailure): number | undefined {
    const { random } = this.#options;
    if (retryAfterMs === undefined)
      return Math.min(firstPauseMs * 2 ** tries, longestPauseMs) * (0.5 + random() / 2);
    return retryAfterMs > longestPauseMs ? undefined : retryAfterMs * (1 + random() / 10);
  }

  #breakerOf(candidate: Candidate): Breaker {
    const isOfHouse = candidate.credential.kind === 'house';
    const key = breakerKey(candidate);
    // `peek`, not `get`: when there are too many, the oldest breaker is dropped, not the least recently used.
    const known = isOfHouse ? this.#ofHouse.get(key) : this.#ofCallers.peek(key);
    if (known) return known;
    const { limits, now } = this.#options;
    const breaker = new Breaker({
      failures: limits.breakerFailures,
      openMs: limits.breakerSecs * 1000,
      now,
    });
    (isOfHouse ? this.#ofHouse : this.#ofCallers).set(key, breaker);
    return breaker;
  }
}

function judge(failure: UpstreamFailure, ticket: BreakerTicket): void {
  if (failure.unwell) ticket.failed();
  // A refused request is a working provider.
  else if (failure.again) ticket.dropped();
  else ticket.succeeded();
}

/** Breakers are kept per model, because one may fail while others work, and per caller credential and base URL. */
function breakerKey({ model, credential }: Candidate): string {
  if (credential.kind === 'house') return `${model.provider.id} ${model.id}`;
  const { provider, baseUrl = '', apiKey } = credential;
  return `${provider} ${model.id} ${baseUrl} ${hash('sha256', apiKey)}`;
}
