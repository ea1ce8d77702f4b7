import type { EngineStats, ObservedEnd, RequestObserver } from '../../engine/index.ts';
import { Counter } from '../../telemetry/instruments.ts';
import type { MetricFamily } from '../../telemetry/prometheus-text.ts';
import { kvCacheUsage, type ModelLoad } from './model-load.ts';
import { TokenRate } from './token-rate.ts';
import { VllmMetrics } from './vllm-metrics.ts';

/**
 * What load balancers and autoscalers need to know of the engine's requests, whoever made them: clients, agents or the
 * gateway. Counters are over all models since startup, by model.
 */
export class RequestMetrics {
  readonly #requests = new Counter({
    name: 'lathe_requests_total',
    help: 'Requests that the engine ended, by the reason.',
  });
  readonly #promptTokens = new Counter({
    name: 'lathe_prefix_cache_queries_total',
    help: 'Prompt tokens that were looked up in the prefix cache: those of all evaluated prompts.',
  });
  readonly #cachedTokens = new Counter({
    name: 'lathe_prefix_cache_hits_total',
    help: 'Prompt tokens that were taken from the prefix cache.',
  });
  readonly #generatedTokens = new Counter({
    name: 'lathe_generated_tokens_total',
    help: 'Generated tokens, also those of requests that were aborted.',
  });
  readonly #rate: TokenRate;
  /** The same under the names of vLLM; undefined unless the host was started with them. */
  readonly #vllm: VllmMetrics | undefined;

  constructor({ compat, now = () => performance.now() }: { compat?: 'vllm'; now?: () => number } = {}) {
    this.#rate = new TokenRate(now);
    this.#vllm = compat === 'vllm' ? new VllmMetrics() : undefined;
  }

  /** Creates the observer of a model's requests. */
  readonly observe = ({ id: model }: { readonly id: string }): RequestObserver => {
    const labels = { model };
    const vllm = this.#vllm?.observe(model);
    const countToken = () => {
      this.#generatedTokens.add(labels);
      this.#rate.add();
    };
    return {
      onPrompt: (prompt) => {
        this.#promptTokens.add(labels, prompt.tokens);
        this.#cachedTokens.add(labels, prompt.cachedTokens);
        vllm?.onPrompt(prompt);
      },
      onFirstToken: (ms) => {
        countToken();
        vllm?.onFirstToken(ms);
      },
      onNextToken: (ms) => {
        countToken();
        vllm?.onNextToken(ms);
      },
      onEnd: (end: ObservedEnd) => {
        this.#requests.add({ model, reason: end.reason });
        vllm?.onEnd(end);
      },
    };
  };

  /** @param loads of all loaded models, the resident one first */
  families(loads: readonly ModelLoad[]): MetricFamily[] {
    const counters = [this.#requests, this.#promptTokens, this.#cachedTokens, this.#generatedTokens];
    return [
      ...loadFamilies(loads),
      ...counters.map((one) => one.family()),
      {
        name: 'lathe_generated_tokens_per_second',
        type: 'gauge',
        help: 'Generated tokens per second, averaged over the last 10 seconds.',
        samples: [{ value: this.#rate.perSecond }],
      },
      ...(this.#vllm?.families(loads) ?? []),
    ];
  }
}

function loadFamilies(loads: readonly ModelLoad[]): MetricFamily[] {
  if (loads.length === 0) return [];
  const family = (
    type: 'gauge' | 'counter',
    name: string,
    help: string,
    valueOf: (stats: EngineStats) => number,
  ): MetricFamily => ({
    name,
    type,
    help,
    samples: loads.map(({ model, stats }) => ({ labels: { model }, value: valueOf(stats) })),
  });
  return [
    family('gauge', 'lathe_request_slots', 'Requests that can run at the same time.', ({ slots }) => slots),
    family('gauge', 'lathe_requests_running', 'Requests that run.', ({ running }) => running),
    family('gauge', 'lathe_requests_waiting', 'Requests that wait in the queue.', ({ queued }) => queued),
    family(
      'gauge',
      'lathe_kv_cache_usage_ratio',
      'Fraction of the KV cache that running requests use, from 0 to 1.',
      ({ pages }) => kvCacheUsage(pages),
    ),
    family('gauge', 'lathe_kv_cache_pages', 'Pages of the KV cache.', ({ pages }) => pages.total),
    family(
      'counter',
      'lathe_preemptions_total',
      'Requests that were preempted for lack of pages or for another client.',
      ({ preemptions }) => preemptions,
    ),
  ];
}
