import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Candidate, type Model, servedModels } from '../catalog/types.ts';
import type { Limits } from '../config/types.ts';
import type { BreakerEvent } from '../../tracing/index.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { groupByModel, orderCandidates } from './deployment-order.ts';
import { DeploymentState } from './deployment-state.ts';
import { RequestAttempts } from './request-attempts.ts';
import type { Attempt, Router, RoutingFacts, RunOptions } from './types.ts';

/** States of callers' own credentials that are kept. */
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
  /** States of the operator's models, by `stateKey`, with the names for their breakers. */
  readonly #operatorStates = new Map<string, OperatorState>();
  readonly #callerStates = new LRUCache<string, DeploymentState>({ max: maxCallers });

  constructor(options: UpstreamRouterOptions) {
    this.#options = { now: () => performance.now(), random: Math.random, ...options };
  }

  order(candidates: readonly Candidate[], { prefix, stream, costOf }: RoutingFacts): Candidate[] {
    return orderCandidates(candidates, {
      prefix,
      costOf,
      cooldownMsOf: (candidate) => this.#findState(candidate)?.cooldownMs ?? 0,
      latencyMsOf: (candidate) => this.#findState(candidate)?.latencyMs(stream) ?? -Infinity,
      random: this.#options.random,
    });
  }

  async run<T>(
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<T>,
    options: RunOptions,
  ): Promise<T> {
    const attempts = new RequestAttempts(
      { ...this.#options, stateOf: (candidate) => this.#stateOf(candidate) },
      attempt,
      options,
    );
    for (const [index, group] of groupByModel(candidates).entries()) {
      const answer = await attempts.tryModel(group, index);
      if (answer) return answer.value;
    }
    throw attempts.error();
  }

  /** The breakers of operators' models that were asked since the start; deployments of one provider share one. */
  breakers(): BreakerEvent[] {
    const events = new Map<string, BreakerEvent>();
    for (const { names, state } of this.#operatorStates.values()) {
      const key = JSON.stringify(names);
      events.set(key, { ...names, isOpen: state.breaker.isOpen || events.get(key)?.isOpen === true });
    }
    return [...events.values()];
  }

  /** Drops what is known about models and deployments that the configuration no longer has. */
  retain(models: readonly Model[]): void {
    const keys = new Set(models.flatMap(servedModels).map(operatorKey));
    for (const [key, { names }] of this.#operatorStates)
      if (!keys.has(key) && names.provider !== localProvider) this.#operatorStates.delete(key);
  }

  #findState({ model, credential }: Candidate): DeploymentState | undefined {
    // `peek`, not `get`: when there are too many, the oldest state is dropped, not the least recently used.
    return credential.kind === 'house'
      ? this.#operatorStates.get(operatorKey(model))?.state
      : this.#callerStates.peek(callerKey(model, credential));
  }

  #stateOf(candidate: Candidate): DeploymentState {
    const existing = this.#findState(candidate);
    if (existing) return existing;
    const { model, credential } = candidate;
    const isOperators = credential.kind === 'house';
    const { limits, now, onBreaker } = this.#options;
    const names = { provider: model.provider.id, model: model.id };
    const breaker = new CircuitBreaker({
      limits,
      nowMs: now,
      ...(isOperators && onBreaker ? { onChange: (isOpen) => onBreaker({ ...names, isOpen }) } : {}),
    });
    const state = new DeploymentState(breaker, now);
    if (isOperators) this.#operatorStates.set(operatorKey(model), { names, state });
    else this.#callerStates.set(callerKey(model, credential), state);
    return state;
  }
}

interface OperatorState {
  readonly names: Omit<BreakerEvent, 'isOpen'>;
  readonly state: DeploymentState;
}

/** The provider of the resident model, which is not in the configuration. */
const localProvider = 'local';

/** States are kept per model, because one may fail while others work, and per caller credential and base URL. */
const operatorKey = ({ provider, upstream, id }: Model): string => `${provider.id} ${upstream} ${id}`;
const callerKey = (
  { upstream, id }: Model,
  { provider, baseUrl = '', apiKey }: Extract<Candidate['credential'], { kind: 'byok' }>,
): string => `${provider} ${upstream} ${id} ${baseUrl} ${hash('sha256', apiKey)}`;
