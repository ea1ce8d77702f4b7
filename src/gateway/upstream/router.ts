import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Candidate, type Model, servedModels } from '../catalog/types.ts';
import type { Limits } from '../config/types.ts';
import type { BreakerEvent } from '../../tracing/index.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { groupByModel, orderCandidates } from './deployment-order.ts';
import { type DeploymentHealth, DeploymentState } from './deployment-state.ts';
import { RequestAttempts } from './request-attempts.ts';
import type { Attempt, Router, RoutingFacts, RunOptions } from './types.ts';

/** States of callers' own credentials that are kept. */
const maxCallers = 10_000;

export interface UpstreamRouterOptions {
  readonly limits: Pick<Limits, 'retries' | 'breakerFailures' | 'breakerSecs'>;
  /** Whether an operator disabled a model at a provider. */
  readonly isDisabled?: (provider: string, model: string) => boolean;
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
  /** Keys of `#operatorStates` that the configuration has; undefined: it has not been replaced. */
  #configuredKeys: ReadonlySet<string> | undefined;
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
    const used = new Map<string, OperatorState>();
    const attempts = new RequestAttempts(
      { ...this.#options, stateOf: (candidate) => this.#stateOf(candidate, used) },
      attempt,
      options,
    );
    const finish = () => {
      for (const [key, state] of used) {
        state.requests -= 1;
        this.#dropUnused(key, state);
      }
    };
    try {
      for (const [index, group] of groupByModel(candidates).entries()) {
        const answer = await attempts.tryModel(group, index);
        if (!answer) continue;
        void options.finished.then(finish, finish);
        return answer.value;
      }
      throw attempts.error();
    } catch (error) {
      finish();
      throw error;
    }
  }

  /** What is known about an operator's deployment; undefined: it was not asked since the start. */
  healthOf(model: Model): DeploymentHealth | undefined {
    return this.#operatorStates.get(operatorKey(model))?.state.health;
  }

  /** The breakers of operators' models that were asked since the start; deployments of one provider share one. */
  breakers(): BreakerEvent[] {
    const events = new Map<string, BreakerEvent>();
    for (const [stateKey, { names, state }] of this.#operatorStates) {
      if (!this.#isConfigured(stateKey, names)) continue;
      const key = JSON.stringify(names);
      events.set(key, { ...names, isOpen: state.breaker.isOpen || events.get(key)?.isOpen === true });
    }
    return [...events.values()];
  }

  /**
   * Drops what is known about models and deployments that the configuration no longer has; where requests still use them, when
   * these have ended.
   */
  retain(models: readonly Model[]): void {
    this.#configuredKeys = new Set(models.flatMap(servedModels).map(operatorKey));
    for (const [key, state] of this.#operatorStates) this.#dropUnused(key, state);
  }

  #isConfigured(key: string, { provider }: OperatorState['names']): boolean {
    return provider === localProvider || (this.#configuredKeys?.has(key) ?? true);
  }

  #dropUnused(key: string, { names, requests }: OperatorState): void {
    if (requests === 0 && !this.#isConfigured(key, names)) this.#operatorStates.delete(key);
  }

  #findState({ model, credential }: Candidate): DeploymentState | undefined {
    // `peek`, not `get`: when there are too many, the oldest state is dropped, not the least recently used.
    return credential.kind === 'house'
      ? this.#operatorStates.get(operatorKey(model))?.state
      : this.#callerStates.peek(callerKey(model, credential));
  }

  /** @param used states of operators' models that this request uses, by their keys; gets this one */
  #stateOf({ model, credential }: Candidate, used: Map<string, OperatorState>): DeploymentState {
    if (credential.kind === 'byok') {
      const key = callerKey(model, credential);
      let state = this.#callerStates.peek(key);
      if (!state) this.#callerStates.set(key, (state = this.#createState()));
      return state;
    }
    const key = operatorKey(model);
    let entry = this.#operatorStates.get(key);
    if (!entry) {
      const names = { provider: model.provider.id, model: model.id };
      entry = { names, state: this.#createState(names), requests: 0 };
      this.#operatorStates.set(key, entry);
    }
    if (!used.has(key)) {
      used.set(key, entry);
      entry.requests += 1;
    }
    return entry.state;
  }

  /** @param names of an operator's model, whose breaker is reported */
  #createState(names?: OperatorState['names']): DeploymentState {
    const { limits, now, onBreaker } = this.#options;
    const breaker = new CircuitBreaker({
      limits,
      nowMs: now,
      ...(names && onBreaker ? { onChange: (isOpen) => onBreaker({ ...names, isOpen }) } : {}),
    });
    return new DeploymentState(breaker, now);
  }
}

interface OperatorState {
  readonly names: Omit<BreakerEvent, 'isOpen'>;
  readonly state: DeploymentState;
  /** Requests that use it: from its first attempt until the request has ended. */
  requests: number;
}

/** The provider of the resident model, which is not in the configuration. */
const localProvider = 'local';

/** States are kept per model, because one may fail while others work, and per credential and base URL. */
const operatorKey = (model: Model): string => {
  const known = operatorKeys.get(model);
  if (known !== undefined) return known;
  const { provider, upstream, id } = model;
  const key = `${provider.id} ${upstream} ${id} ${provider.baseUrls.join(' ')} ${hash('sha256', provider.apiKey ?? '')}`;
  operatorKeys.set(model, key);
  return key;
};
/** Keys that were made: models never change, a reload replaces them. */
const operatorKeys = new WeakMap<Model, string>();
const callerKey = (
  { upstream, id }: Model,
  { provider, baseUrl = '', apiKey }: Extract<Candidate['credential'], { kind: 'byok' }>,
): string => `${provider} ${upstream} ${id} ${baseUrl} ${hash('sha256', apiKey)}`;
