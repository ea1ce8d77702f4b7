import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { sleep } from '../../util/sleep.ts';
import type { Candidate } from '../catalog/types.ts';
import type { Limits } from '../config/types.ts';
import type { BreakerEvent } from '../../tracing/index.ts';
import { CircuitBreaker, type BreakerTicket } from './circuit-breaker.ts';
import { providerNameOf } from './destination.ts';
import { ProviderFailures } from './provider-failures.ts';
import { type Attempt, type Router, type RunOptions, UntranslatableRequest } from './types.ts';
import { UpstreamFailure } from '../../wires/core/upstream-failure.ts';

/** A provider that asks for a longer delay (`Retry-After`) is not retried, in ms. */
const maxRetryDelayMs = 10_000;
const firstRetryDelayMs = 250;
/** Breakers of callers' own credentials that are kept. */
const maxCallers = 10_000;

export interface UpstreamRouterOptions {
  readonly limits: Pick<Limits, 'retries' | 'breakerFailures' | 'breakerSecs'>;
  /** Called when the breaker of an operator's model opens or closes. */
  readonly onBreaker?: (event: BreakerEvent) => void;
  /** Monotonic clock, in ms. */
  readonly now?: () => number;
  /** Returns a number from 0 to below 1. */
  readonly random?: () => number;
}

export class UpstreamRouter implements Router {
  readonly #options: UpstreamRouterOptions & { readonly now: () => number; readonly random: () => number };
  readonly #operatorBreakers = new Map<string, CircuitBreaker>();
  /** What the breakers of the operator's models belong to. */
  readonly #operatorModels = new Map<string, Omit<BreakerEvent, 'isOpen'>>();
  readonly #callerBreakers = new LRUCache<string, CircuitBreaker>({ max: maxCallers });

  constructor(options: UpstreamRouterOptions) {
    this.#options = { now: () => performance.now(), random: Math.random, ...options };
  }

  async run<T>(
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<T>,
    { signal, callerId, onAttempt }: RunOptions,
  ): Promise<T> {
    let attemptNumber = 0;
    let last: UpstreamFailure | undefined;
    let soonestRetry: { readonly retryInMs: number; readonly candidate: Candidate } | undefined;
    for (const [candidateIndex, candidate] of candidates.entries()) {
      signal.throwIfAborted();
      const breaker = this.#getBreaker(candidate);
      const ticket = breaker.acquire(callerId);
      if ('retryInMs' in ticket) {
        const { retryInMs } = ticket;
        if (!soonestRetry || retryInMs < soonestRetry.retryInMs) soonestRetry = { retryInMs, candidate };
        continue;
      }
      for (let retries = 0; ; retries += 1) {
        const attemptInfo: Attempt = { candidate, attemptNumber, candidateIndex };
        attemptNumber += 1;
        try {
          const result = await attempt(attemptInfo);
          ticket.markSucceeded();
          onAttempt?.(attemptInfo);
          return result;
        } catch (error) {
          if (error instanceof UntranslatableRequest) {
            ticket.discard();
            break;
          }
          if (signal.aborted || !(error instanceof UpstreamFailure)) {
            ticket.discard();
            throw error;
          }
          // When the breaker is open, retries would only add load.
          const canRetry = error.isRetryable && retries < this.#options.limits.retries && !breaker.isOpen;
          const retryDelayMs = canRetry ? this.#retryDelay(retries, error) : undefined;
          // The breaker counts a request once, however many attempts it had.
          if (retryDelayMs === undefined) reportOutcome(error, ticket);
          onAttempt?.({
            ...attemptInfo,
            failure: error,
            ...(retryDelayMs === undefined ? {} : { retryDelayMs }),
          });
          if (!error.isRetryable) throw error;
          last = error;
          if (retryDelayMs === undefined) break;
          try {
            if (retryDelayMs > 0) await sleep(retryDelayMs, signal);
          } catch (abortReason) {
            ticket.discard();
            throw abortReason;
          }
        }
      }
    }
    if (last) throw last;
    if (!soonestRetry) throw new Error('no candidates');
    const { model } = soonestRetry.candidate;
    throw new ProviderFailures(providerNameOf(soonestRetry.candidate)).breakerOpen(
      model.id,
      soonestRetry.retryInMs,
    );
  }

  /** The breakers of operators' models that were asked since the start. */
  breakers(): BreakerEvent[] {
    return [...this.#operatorModels].map(([key, names]) => ({
      ...names,
      isOpen: this.#operatorBreakers.get(key)?.isOpen ?? false,
    }));
  }

  /** Retry delay in ms: the provider's `Retry-After`, or exponential backoff; undefined when it would be too long. */
  #retryDelay(tries: number, { retryAfterMs }: UpstreamFailure): number | undefined {
    const { random } = this.#options;
    if (retryAfterMs === undefined)
      return Math.min(firstRetryDelayMs * 2 ** tries, maxRetryDelayMs) * (0.5 + random() / 2);
    return retryAfterMs > maxRetryDelayMs ? undefined : retryAfterMs * (1 + random() / 10);
  }

  #getBreaker(candidate: Candidate): CircuitBreaker {
    const isOperators = candidate.credential.kind === 'house';
    const key = breakerKey(candidate);
    // `peek`, not `get`: when there are too many, the oldest breaker is dropped, not the least recently used.
    const existing = isOperators ? this.#operatorBreakers.get(key) : this.#callerBreakers.peek(key);
    if (existing) return existing;
    const { limits, now, onBreaker } = this.#options;
    const names = { provider: candidate.model.provider.id, model: candidate.model.id };
    const breaker = new CircuitBreaker({
      limits,
      nowMs: now,
      ...(isOperators && onBreaker ? { onChange: (isOpen) => onBreaker({ ...names, isOpen }) } : {}),
    });
    if (isOperators) this.#operatorModels.set(key, names);
    (isOperators ? this.#operatorBreakers : this.#callerBreakers).set(key, breaker);
    return breaker;
  }
}

function reportOutcome(failure: UpstreamFailure, ticket: BreakerTicket): void {
  if (failure.isUnhealthy) ticket.markFailed();
  // A refused request is a working provider.
  else if (failure.isRetryable) ticket.discard();
  else ticket.markSucceeded();
}

/** Breakers are kept per model, because one may fail while others work, and per caller credential and base URL. */
function breakerKey({ model, credential }: Candidate): string {
  if (credential.kind === 'house') return `${model.provider.id} ${model.id}`;
  const { provider, baseUrl = '', apiKey } = credential;
  return `${provider} ${model.id} ${baseUrl} ${hash('sha256', apiKey)}`;
}
