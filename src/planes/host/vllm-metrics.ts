/** The metrics of a model under the names, labels and buckets that vLLM 0.11 and later has for them. */
import type { EngineStats, ObservedEnd, RequestObserver } from '../../engine/index.ts';
import { Counter, Histogram } from '../../telemetry/instruments.ts';
import type { Labels, MetricFamily } from '../../telemetry/prometheus-text.ts';
import { kvCacheUsage, type ModelLoad } from './model-load.ts';

const firstTokenBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const perTokenBuckets = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
const requestBuckets = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const tokenCountBuckets = [1, 10, 100, 1000, 10_000, 100_000].flatMap((unit) => [unit, 2 * unit, 5 * unit]);

const histogram = (name: string, help: string, buckets: readonly number[]) =>
  new Histogram({ name: `vllm:${name}`, help }, buckets);
const counter = (name: string, help: string) => new Counter({ name: `vllm:${name}_total`, help });

/** A model has one engine; vLLM numbers those of a data-parallel deployment. */
const engine = '0';

export class VllmMetrics {
  readonly #counters = {
    queries: counter('prefix_cache_queries', 'Prompt tokens that were looked up in the prefix cache.'),
    hits: counter('prefix_cache_hits', 'Prompt tokens that were taken from the prefix cache.'),
    promptTokens: counter('prompt_tokens', 'Prompt tokens of evaluated prompts.'),
    generationTokens: counter('generation_tokens', 'Generated tokens.'),
    success: counter('request_success', 'Requests that ended, by the reason.'),
  };
  readonly #histograms = {
    firstToken: histogram('time_to_first_token_seconds', 'Time to the first token.', firstTokenBuckets),
    interToken: histogram('inter_token_latency_seconds', 'Time between two tokens.', perTokenBuckets),
    perToken: histogram(
      'time_per_output_token_seconds',
      'Time between two tokens, under its older name.',
      perTokenBuckets,
    ),
    requestPerToken: histogram(
      'request_time_per_output_token_seconds',
      'Mean time per token after the first, of a request.',
      perTokenBuckets,
    ),
    latency: histogram('e2e_request_latency_seconds', 'Duration of requests.', requestBuckets),
    queue: histogram('request_queue_time_seconds', 'Time that requests waited.', requestBuckets),
    prefill: histogram('request_prefill_time_seconds', 'Time of the prompt evaluation.', requestBuckets),
    decode: histogram('request_decode_time_seconds', 'Time after the first token.', requestBuckets),
    inference: histogram('request_inference_time_seconds', 'Time that requests ran.', requestBuckets),
    promptLength: histogram('request_prompt_tokens', 'Prompt tokens of a request.', tokenCountBuckets),
    answerLength: histogram('request_generation_tokens', 'Generated tokens of a request.', tokenCountBuckets),
  };

  observe(model: string): RequestObserver {
    const labels = { model_name: model, engine };
    const { queries, hits, promptTokens, generationTokens } = this.#counters;
    const { firstToken, interToken, perToken } = this.#histograms;
    return {
      onPrompt({ tokens, cachedTokens }) {
        queries.add(labels, tokens);
        hits.add(labels, cachedTokens);
        promptTokens.add(labels, tokens);
      },
      onFirstToken(ms) {
        generationTokens.add(labels);
        firstToken.observe(labels, ms / 1000);
      },
      onNextToken(ms) {
        generationTokens.add(labels);
        interToken.observe(labels, ms / 1000);
        perToken.observe(labels, ms / 1000);
      },
      onEnd: (end) => this.#countEnd(labels, end),
    };
  }

  #countEnd(labels: Labels, { reason, promptTokens, outputTokens, timings }: ObservedEnd): void {
    this.#counters.success.add({ ...labels, finished_reason: reason });
    if (!timings) return;
    const { queued_ms: queuedMs, prefill_ms: prefillMs, decode_ms: decodeMs } = timings;
    const { latency, queue, prefill, decode, inference, requestPerToken, promptLength, answerLength } =
      this.#histograms;
    latency.observe(labels, (queuedMs + prefillMs + decodeMs) / 1000);
    queue.observe(labels, queuedMs / 1000);
    prefill.observe(labels, prefillMs / 1000);
    decode.observe(labels, decodeMs / 1000);
    inference.observe(labels, (prefillMs + decodeMs) / 1000);
    if (outputTokens > 1) requestPerToken.observe(labels, decodeMs / (outputTokens - 1) / 1000);
    promptLength.observe(labels, promptTokens);
    answerLength.observe(labels, outputTokens);
  }

  families(loads: readonly ModelLoad[]): MetricFamily[] {
    return [
      ...loadFamilies(loads),
      ...Object.values(this.#counters).map((one) => one.family()),
      ...Object.values(this.#histograms).map((one) => one.family()),
    ];
  }
}

function loadFamilies(loads: readonly ModelLoad[]): MetricFamily[] {
  const [resident] = loads;
  if (!resident) return [];
  const { pages, pageTokens } = resident.stats;
  const family = (
    type: 'gauge' | 'counter',
    name: string,
    help: string,
    valueOf: (stats: EngineStats) => number,
  ): MetricFamily => ({
    name: `vllm:${name}`,
    type,
    help,
    samples: loads.map(({ model, stats }) => ({
      labels: { model_name: model, engine },
      value: valueOf(stats),
    })),
  });
  /** A family whose labels name no model, of the resident one. */
  const info = (name: string, help: string, value: number, labels: Labels): MetricFamily => ({
    name: `vllm:${name}`,
    type: 'gauge',
    help,
    samples: [{ labels, value }],
  });
  const cacheConfig = {
    block_size: String(pageTokens),
    num_gpu_blocks: String(pages.total),
    cache_dtype: 'float16',
    enable_prefix_caching: 'True',
    engine,
  };
  // The host serves no LoRA adapters. Endpoint pickers take the sample with the latest time, which is the value.
  const adapters = { max_lora: '0', waiting_lora_adapters: '', running_lora_adapters: '' };
  return [
    family('gauge', 'num_requests_running', 'Requests that run.', ({ running }) => running),
    family('gauge', 'num_requests_waiting', 'Requests that wait in the queue.', ({ queued }) => queued),
    family('gauge', 'kv_cache_usage_perc', 'Fraction of the KV cache in use.', (stats) =>
      kvCacheUsage(stats.pages),
    ),
    info('cache_config_info', 'Configuration of the KV cache.', 1, cacheConfig),
    info('lora_requests_info', 'Adapters in use; none are served.', Math.floor(Date.now() / 1000), adapters),
    family(
      'counter',
      'num_preemptions_total',
      'Requests preempted for lack of pages or for another client.',
      ({ preemptions }) => preemptions,
    ),
  ];
}
