/** The metrics of requests tell what a scheduler over a simulated GPU did. */
import { describe, expect, it } from 'vitest';
import { type ModelLoad } from '../../src/planes/host/model-load.ts';
import { RequestMetrics } from '../../src/planes/host/request-metrics.ts';
import { TokenRate } from '../../src/planes/host/token-rate.ts';
import { formatExposition } from '../../src/telemetry/prometheus-text.ts';
import { readPrometheus } from '../support/prometheus.ts';
import { long, request, run, turns, world } from '../support/scheduler-world.ts';
import { read } from '../support/simulated-runner.ts';

type World = ReturnType<typeof world>;

const loadOf = ({ scheduler, counts }: World): ModelLoad => ({
  model: 'm',
  stats: {
    slots: 4,
    running: scheduler.running,
    queued: scheduler.waiting,
    completions: 0,
    embeddings: 0,
    rankedDocuments: 0,
    promptTokens: 0,
    completionTokens: 0,
    cachedTokens: 0,
    deviceLosses: 0,
    memoryBytes: 0,
    pages: scheduler.pages,
    pageTokens: 32,
    stalledReaders: 0,
    preemptions: counts.preemptions,
    speculation: { drafted: 0, accepted: 0 },
  },
});

/** A scheduler whose requests are observed, and a reader of its metrics. */
function observed(options: Parameters<typeof world>[0] = {}, compat: 'vllm' | 'none' = 'vllm') {
  const metrics = new RequestMetrics(compat === 'none' ? {} : { compat });
  const at = world({ ...options, observer: metrics.observe({ id: 'm' }) });
  const families = () => readPrometheus(formatExposition(metrics.families([loadOf(at)])));
  /** The value of a sample by the family's name and the sample's suffix and labels. */
  const value = (name: string, suffix = '', labels: Record<string, string> = {}) =>
    families()
      .get(name)
      ?.samples.find(
        (one) =>
          one.name === `${name}${suffix}` &&
          Object.entries(labels).every(([label, text]) => one.labels[label] === text),
      )?.value;
  return { ...at, families, value, metrics };
}

describe('gauges', () => {
  it('show the queue, the running requests and the part of the cache that they use', async () => {
    const { add, scheduler, value } = observed({ slots: 2, pages: 40 });
    const sequences = Array.from({ length: 7 }, (_, seed) => add(long(seed, 30)));
    const answers = sequences.map(read);
    await turns(2);
    for (const [ours, theirs] of [
      ['lathe_requests_running', 'vllm:num_requests_running'],
      ['lathe_requests_waiting', 'vllm:num_requests_waiting'],
    ] as const)
      expect(value(ours)).toBe(value(theirs));
    expect([value('lathe_requests_running'), value('lathe_requests_waiting')]).toEqual([2, 5]);
    const used = sequences.reduce((sum, { pages }) => sum + pages.length, 0);
    expect(used).toBeGreaterThan(0);
    expect(value('lathe_kv_cache_usage_ratio')).toBe(used / 40);
    expect(value('vllm:kv_cache_usage_perc')).toBe(used / 40);
    await Promise.all(answers);
    await scheduler.whenIdle();
    expect([value('lathe_requests_running'), value('lathe_requests_waiting')]).toEqual([0, 0]);
    // The pages are kept for later prompts, which is no use of the cache.
    expect(scheduler.pages.cached).toBeGreaterThan(0);
    expect(value('vllm:kv_cache_usage_perc')).toBe(0);
  });

  it('count preemptions', async () => {
    const { answer, counts, value } = observed({ slots: 4, pages: 8 });
    await Promise.all([1, 2, 3, 4].map((seed) => answer(long(seed, 90))));
    expect(counts.preemptions).toBeGreaterThan(0);
    expect(value('lathe_preemptions_total')).toBe(counts.preemptions);
    expect(value('vllm:num_preemptions_total')).toBe(counts.preemptions);
  });
});

describe('counters and histograms', () => {
  it('a repeated prompt counts its cached tokens as hits', async () => {
    const { answer, value } = observed();
    const one = request({ prompt: run(3, 100) });
    await answer(one);
    expect(value('lathe_prefix_cache_hits_total')).toBe(0);
    const { end } = await answer(one);
    expect(end.usage.cached_tokens).toBe(99);
    for (const prefix of ['lathe_', 'vllm:']) {
      expect(value(`${prefix}prefix_cache_hits_total`)).toBe(99);
      expect(value(`${prefix}prefix_cache_queries_total`)).toBe(200);
    }
    expect(value('vllm:prompt_tokens_total')).toBe(200);
  });

  it.each(['off', 'always'] as const)(
    'have an observation for each request and token, drafts %s',
    async (speculation) => {
      const { answer, value } = observed({ slots: 3, speculation });
      const answers = await Promise.all(Array.from({ length: 8 }, (_, seed) => answer(long(seed, 5 + seed))));
      const tokens = answers.reduce((sum, { ids }) => sum + ids.length, 0);
      const total = (of: (timings: (typeof answers)[number]['end']['timings']) => number) =>
        answers.reduce((sum, { end }) => sum + of(end.timings), 0) / 1000;
      const labels = { model_name: 'm', engine: '0' };
      for (const [name, count, sum] of [
        ['time_to_first_token_seconds', 8, total((one) => one.queued_ms + one.prefill_ms)],
        ['inter_token_latency_seconds', tokens - 8, total((one) => one.decode_ms)],
        ['time_per_output_token_seconds', tokens - 8, total((one) => one.decode_ms)],
        ['request_time_per_output_token_seconds', 8, undefined],
        ['e2e_request_latency_seconds', 8, total((one) => one.queued_ms + one.prefill_ms + one.decode_ms)],
        ['request_queue_time_seconds', 8, total((one) => one.queued_ms)],
        ['request_prefill_time_seconds', 8, total((one) => one.prefill_ms)],
        ['request_decode_time_seconds', 8, total((one) => one.decode_ms)],
        ['request_inference_time_seconds', 8, total((one) => one.prefill_ms + one.decode_ms)],
        ['request_prompt_tokens', 8, 160],
        ['request_generation_tokens', 8, tokens],
      ] as const) {
        expect([name, value(`vllm:${name}`, '_count', labels)]).toEqual([name, count]);
        if (sum !== undefined) expect(value(`vllm:${name}`, '_sum', labels), name).toBeCloseTo(sum, 6);
      }
      expect(value('vllm:generation_tokens_total', '', labels)).toBe(tokens);
      expect(value('lathe_generated_tokens_total')).toBe(tokens);
      expect(value('lathe_requests_total', '', { reason: 'length' })).toBe(8);
      expect(value('vllm:request_success_total', '', { ...labels, finished_reason: 'length' })).toBe(8);
    },
  );

  it('a canceled request has its tokens and its reason, and no duration', async () => {
    const { add, scheduler, value } = observed();
    const sequence = add(long(1, 1000));
    await expect(async () => {
      for await (const event of sequence.events())
        if (event.type === 'text' && sequence.outputTokens >= 5)
          scheduler.cancel(sequence, new Error('gone'));
    }).rejects.toThrow('gone');
    expect(value('lathe_requests_total', '', { reason: 'abort' })).toBe(1);
    expect(value('vllm:request_success_total', '', { finished_reason: 'abort' })).toBe(1);
    expect(value('vllm:time_to_first_token_seconds', '_count')).toBe(1);
    expect(value('vllm:generation_tokens_total')).toBe(sequence.outputTokens);
    expect(value('vllm:e2e_request_latency_seconds', '_count')).toBeUndefined();
  });
});

describe('names', () => {
  it('those of vLLM are served only when asked for', () => {
    expect([...observed({}, 'none').families().keys()].filter((name) => name.startsWith('vllm'))).toEqual([]);
  });

  it('endpoint pickers find the labels that they read, and a model that is gone has no gauges', () => {
    const { families, metrics } = observed({ pages: 40 });
    const labels = (name: string) => families().get(name)?.samples[0]?.labels;
    expect(labels('vllm:cache_config_info')).toMatchObject({ block_size: '32', num_gpu_blocks: '40' });
    expect(labels('vllm:lora_requests_info')).toEqual({
      max_lora: '0',
      waiting_lora_adapters: '',
      running_lora_adapters: '',
    });
    const now = families().get('vllm:lora_requests_info')?.samples[0]?.value ?? 0;
    expect(Math.abs(now - Date.now() / 1000)).toBeLessThan(60);
    const absent = readPrometheus(formatExposition(metrics.families([])));
    expect(absent.has('vllm:num_requests_waiting')).toBe(false);
    expect(absent.has('lathe_requests_waiting')).toBe(false);
  });
});

describe('tokens per second', () => {
  it('is the average of the last ten whole seconds', () => {
    let now = 100_000;
    const rate = new TokenRate(() => now);
    expect(rate.perSecond).toBe(0);
    // 25 tokens a second, for 15 seconds.
    for (let tick = 0; tick < 375; tick++) {
      rate.add();
      now += 40;
    }
    expect(rate.perSecond).toBe(25);
    now += 4000;
    expect(rate.perSecond).toBe(15);
    now += 6000;
    expect(rate.perSecond).toBe(0);
  });

  it('is the average since the start in the first seconds, and survives long pauses', () => {
    let now = 0;
    const rate = new TokenRate(() => now);
    for (let n = 0; n < 40; n++) rate.add();
    now = 2000;
    expect(rate.perSecond).toBe(20);
    now = 3_600_500;
    rate.add();
    expect(rate.perSecond).toBe(0);
    now = 3_601_500;
    expect(rate.perSecond).toBe(0.1);
  });
});
