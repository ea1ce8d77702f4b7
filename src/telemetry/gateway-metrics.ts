import type {
  AttemptEvent,
  BreakerEvent,
  CacheLookupEvent,
  CommitEvent,
  ConfigState,
  GatewayObserver,
  GatewayState,
  HedgeEvent,
  HookEvent,
  TraceSink,
  TraceSpan,
} from '../tracing/index.ts';
import { Counter, Histogram } from './instruments.ts';
import { LabelNames } from './label-names.ts';
import type { Labels, MetricFamily } from './prometheus-text.ts';
import { toProviderName } from './providers.ts';

/** Bucket boundaries in seconds. */
export const durationBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const shortBuckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const responseBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

/** Prometheus metrics of a gateway. They are in memory; the number of label values is bounded. */
export class GatewayMetrics implements TraceSink, GatewayObserver {
  readonly #requests = new Counter({ name: 'lathe_gateway_requests_total', help: 'Gateway requests.' });
  readonly #durations = new Histogram(
    { name: 'lathe_gateway_request_duration_seconds', help: 'Duration of gateway requests.' },
    durationBuckets,
  );
  readonly #admission = new Histogram(
    {
      name: 'lathe_gateway_admission_seconds',
      help: 'Time from the arrival of a request until it is sent to a provider: what the gateway itself adds before the answer.',
    },
    shortBuckets,
  );
  readonly #firstTokens = new Histogram(
    {
      name: 'lathe_gateway_time_to_first_token_seconds',
      help: 'Time to the first frame of streamed answers.',
    },
    responseBuckets,
  );
  readonly #responses = new Histogram(
    {
      name: 'lathe_gateway_provider_response_seconds',
      help: "Time from sending an attempt to the head of the provider's answer.",
    },
    responseBuckets,
  );
  readonly #attempts = new Counter({
    name: 'lathe_gateway_attempts_total',
    help: 'Attempts at providers. retried: failed, and another followed after a delay at the same model. failed: the others that failed, also where the next deployment or a fallback was asked at once.',
  });
  readonly #hedges = new Counter({
    name: 'lathe_gateway_hedges_total',
    help: 'Requests for which a second deployment was asked because the first one was slow, by the second one. won: it answered. lost: the first one did.',
  });
  readonly #tokens = new Counter({
    name: 'lathe_gateway_tokens_total',
    help: 'Tokens of gateway requests; input includes cached tokens.',
  });
  readonly #cost = new Counter({
    name: 'lathe_gateway_cost_nanousd_total',
    help: 'Cost of gateway requests, in nanodollars (1e-9 USD).',
  });
  readonly #breakerChanges = new Counter({
    name: 'lathe_gateway_breaker_changes_total',
    help: 'How often the circuit breaker of a model opened or closed.',
  });
  readonly #cacheLookups = new Counter({
    name: 'lathe_gateway_cache_lookups_total',
    help: 'Requests that were looked up in the cache of answers.',
  });
  readonly #hooks = new Histogram(
    { name: 'lathe_gateway_hook_seconds', help: 'Duration of checks by hooks.' },
    shortBuckets,
  );
  readonly #commits = new Counter({
    name: 'lathe_gateway_ledger_commits_total',
    help: 'Transactions of the ledger.',
  });
  readonly #operations = new Counter({
    name: 'lathe_gateway_ledger_operations_total',
    help: 'Holds, settlements and other operations that those transactions had.',
  });
  readonly #commitSeconds = new Histogram(
    { name: 'lathe_gateway_ledger_commit_seconds', help: 'Duration of transactions of the ledger.' },
    shortBuckets,
  );
  readonly #providers = new LabelNames();
  readonly #models = new LabelNames();

  readonly onEnd = (traceSpan: TraceSpan): void => {
    if (traceSpan.kind === 'gateway') this.#onRequest(traceSpan as TraceSpan<'gateway'>);
  };

  readonly onAttempt = ({ provider, responseMs, failure, retryDelayMs }: AttemptEvent): void => {
    const label = this.#providers.labelOf(toProviderName(provider));
    const outcome = failure === undefined ? 'ok' : retryDelayMs === undefined ? 'failed' : 'retried';
    this.#attempts.add({ provider: label, outcome, code: failure?.code ?? '' });
    if (responseMs !== undefined) this.#responses.observe({ provider: label }, responseMs / 1000);
  };

  readonly onHedge = ({ provider, model, outcome }: HedgeEvent): void => {
    this.#hedges.add({ ...this.#labelsOf({ provider, model }), outcome });
  };

  readonly onBreaker = ({ isOpen, ...names }: BreakerEvent): void => {
    this.#breakerChanges.add({ ...this.#labelsOf(names), to: isOpen ? 'open' : 'closed' });
  };

  readonly onCommit = ({ operations, ms, isCommitted }: CommitEvent): void => {
    this.#commits.add({ outcome: isCommitted ? 'ok' : 'failed' });
    this.#operations.add({ outcome: isCommitted ? 'ok' : 'failed' }, operations);
    this.#commitSeconds.observe({}, ms / 1000);
  };

  readonly onCacheLookup = ({ model, isHit }: CacheLookupEvent): void => {
    this.#cacheLookups.add({ model: this.#models.labelOf(model), outcome: isHit ? 'hit' : 'miss' });
  };

  readonly onHook = ({ hook, stage, outcome, ms }: HookEvent): void => {
    this.#hooks.observe({ hook, stage, outcome }, ms / 1000);
  };

  /** The current metrics. @param state undefined where no gateway is open */
  families(state: GatewayState | undefined): MetricFamily[] {
    const instruments = [
      this.#requests,
      this.#durations,
      this.#admission,
      this.#firstTokens,
      this.#responses,
      this.#attempts,
      this.#hedges,
      this.#tokens,
      this.#cost,
      this.#breakerChanges,
      this.#cacheLookups,
      this.#hooks,
      this.#commits,
      this.#operations,
      this.#commitSeconds,
    ];
    return [...instruments.map((one) => one.family()), ...(state ? this.#stateFamilies(state) : [])];
  }

  #stateFamilies(state: GatewayState): MetricFamily[] {
    const gauge = (name: string, help: string, value: number): MetricFamily => ({
      name: `lathe_gateway_${name}`,
      type: 'gauge',
      help,
      samples: [{ value }],
    });
    const breakers = state.breakers.map(({ isOpen, ...names }) => ({
      labels: this.#labelsOf(names),
      value: isOpen ? 1 : 0,
    }));
    return [
      gauge('requests_in_flight', 'Requests that are not settled.', state.requestsInFlight),
      gauge('holds_open', 'Holds that this gateway placed and has not settled.', state.openHolds),
      gauge('settlements_retried', 'Settlements that failed and are retried.', state.unsettled),
      gauge('ledger_queue', 'Operations that wait for a transaction of the ledger.', state.queuedOperations),
      {
        name: 'lathe_gateway_breaker_open',
        type: 'gauge',
        help: 'Whether the circuit breaker of a model is open, so that requests skip it.',
        samples: breakers,
      },
      ...(state.config ? configFamilies(state.config) : []),
    ];
  }

  #onRequest({ attributes, result, totalMs = 0 }: TraceSpan<'gateway'>): void {
    const { wire, costNanousd, provider, effectiveModel, admissionMs, firstTokenMs } = attributes;
    const outcome = result?.outcome ?? 'failed';
    this.#requests.add({ wire, provider: this.#providers.labelOf(toProviderName(provider)), outcome });
    this.#durations.observe({ wire, outcome }, totalMs / 1000);
    if (admissionMs !== undefined) this.#admission.observe({ wire }, admissionMs / 1000);
    if (firstTokenMs !== undefined && outcome === 'ok')
      this.#firstTokens.observe({ wire }, firstTokenMs / 1000);
    const labels = this.#labelsOf({ provider, model: effectiveModel ?? '' });
    countTokens(this.#tokens, labels, attributes);
    if (costNanousd !== undefined && costNanousd > 0n) this.#cost.add(labels, costNanousd);
  }

  #labelsOf({ provider, model }: { readonly provider: string | undefined; readonly model: string }): Labels {
    return {
      provider: this.#providers.labelOf(toProviderName(provider)),
      model: this.#models.labelOf(model),
    };
  }
}

function configFamilies({ version, isNewest, reloads }: ConfigState): MetricFamily[] {
  return [
    {
      name: 'lathe_gateway_config_version',
      type: 'gauge',
      help: 'Version of the configuration in force, which all gateways of the database count.',
      samples: [{ value: version }],
    },
    {
      name: 'lathe_gateway_config_newest',
      type: 'gauge',
      help: 'Whether no other gateway of the database serves a newer, different configuration.',
      samples: [{ value: isNewest ? 1 : 0 }],
    },
    {
      name: 'lathe_gateway_config_reloads_total',
      type: 'counter',
      help: 'Reloads of the configuration.',
      samples: Object.entries(reloads).map(([outcome, value]) => ({ labels: { outcome }, value })),
    },
  ];
}

interface TokenCounts {
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly completionTokens?: number;
}

export function countTokens(
  counter: Counter,
  labels: Labels,
  { promptTokens, cachedTokens, completionTokens }: TokenCounts,
): void {
  if (promptTokens !== undefined) counter.add({ ...labels, type: 'input' }, promptTokens);
  if (cachedTokens !== undefined) counter.add({ ...labels, type: 'cached' }, cachedTokens);
  if (completionTokens !== undefined) counter.add({ ...labels, type: 'output' }, completionTokens);
}
