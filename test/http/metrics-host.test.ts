/** `/metrics` of a host with a real model: its numbers are those of the requests. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';
import { type PrometheusFamily, readPrometheus } from '../support/prometheus.ts';
import { until } from '../support/until.ts';

let host: HostProcess;
let url: string;
let control: string;
beforeAll(async () => {
  buildHost();
  const args = '--gpu --port 0 --control-port 0 --parallel 1 --metrics-compat vllm';
  host = startHost(args.split(' '));
  url = await host.url();
  control = /control at (http:[^)]+)/.exec(host.output.stdout)?.[1] ?? '';
});
afterAll(() => host.end());

const scrape = async (): Promise<Map<string, PrometheusFamily>> =>
  readPrometheus(await (await fetch(`${control}/metrics`)).text());

/** Sum of a metric's samples of this name and with these labels. */
async function valueOf(name: string, labels: Record<string, string> = {}): Promise<number> {
  const family = (await scrape()).get(name.replace(/_count$/, ''));
  const samples = family?.samples.filter(
    (one) => one.name === name && Object.entries(labels).every(([label, text]) => one.labels[label] === text),
  );
  return samples?.reduce((sum, { value }) => sum + value, 0) ?? 0;
}

interface Completion {
  readonly usage: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
}
const complete = (prompt: string, more: object = {}, signal?: AbortSignal) =>
  fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 5, temperature: 0, ignore_eos: true, ...more }),
    ...(signal ? { signal } : {}),
  });
const completed = async (prompt: string): Promise<Completion['usage']> =>
  ((await (await complete(prompt)).json()) as Completion).usage;

test('a queue of requests, their tokens, their prefixes and their times', async () => {
  // What inference gateways, autoscalers and benchmarks read before the first request.
  const first = await scrape();
  const model = first.get('vllm:num_requests_waiting')?.samples[0]?.labels['model_name'];
  expect(model).toBe('lathe-tiny');
  for (const name of ['num_requests_waiting', 'num_requests_running', 'kv_cache_usage_perc'])
    expect(first.get(`vllm:${name}`)).toMatchObject({
      type: 'gauge',
      samples: [{ labels: { model_name: model, engine: '0' }, value: 0 }],
    });
  const cache = first.get('vllm:cache_config_info')?.samples[0]?.labels;
  expect(Number(cache?.['block_size'])).toBe(32);
  expect(Number(cache?.['num_gpu_blocks'])).toBeGreaterThan(0);
  expect(first.has('vllm:lora_requests_info')).toBe(true);

  // One request that runs until it is canceled, and four that wait for it.
  const cancel = new AbortController();
  const running = await complete('Once upon a time', { max_tokens: 400, stream: true }, cancel.signal);
  const reader = running.body?.getReader();
  await reader?.read();
  const prompts = ['One fine day', 'Two small cats', 'Three old men', 'Four big dogs'];
  const waiting = prompts.map(completed);
  await until(async () => (await valueOf('vllm:num_requests_waiting')) === 4);
  expect(await valueOf('lathe_requests_waiting')).toBe(4);
  expect(await valueOf('vllm:num_requests_running')).toBe(1);
  expect(await valueOf('vllm:kv_cache_usage_perc')).toBeGreaterThan(0);
  cancel.abort();
  await reader?.read().catch(() => undefined);
  const usages = await Promise.all(waiting);

  const repeated = 'The same words come twice, and the second time they are known to the cache of the model.';
  const hitsBefore = await valueOf('vllm:prefix_cache_hits_total');
  usages.push(await completed(repeated), await completed(repeated));
  const cached = usages.at(-1)?.prompt_tokens_details.cached_tokens ?? 0;
  expect(cached).toBeGreaterThan(0);
  const firstCached = usages.at(-2)?.prompt_tokens_details.cached_tokens ?? 0;
  expect((await valueOf('vllm:prefix_cache_hits_total')) - hitsBefore).toBe(cached + firstCached);

  expect(await valueOf('vllm:num_requests_waiting')).toBe(0);
  expect(await valueOf('vllm:num_requests_running')).toBe(0);
  expect(await valueOf('vllm:request_success_total', { finished_reason: 'abort' })).toBe(1);
  expect(await valueOf('vllm:request_success_total', { finished_reason: 'length' })).toBe(6);
  expect(await valueOf('vllm:time_to_first_token_seconds_count')).toBe(7);
  expect(await valueOf('vllm:e2e_request_latency_seconds_count')).toBe(6);
  expect(await valueOf('vllm:request_generation_tokens_count')).toBe(6);
  const tokens = await valueOf('vllm:generation_tokens_total');
  expect(await valueOf('vllm:inter_token_latency_seconds_count')).toBe(tokens - 7);
  expect(await valueOf('lathe_generated_tokens_total')).toBe(tokens);
  expect(tokens).toBeGreaterThan(6 * 5);
  const prompt = usages.reduce((sum, usage) => sum + usage.prompt_tokens, 0);
  expect(await valueOf('vllm:request_prompt_tokens_count')).toBe(6);
  expect(await valueOf('vllm:prompt_tokens_total')).toBeGreaterThan(prompt);
  // The rate is over whole seconds, so the tokens of this one count when it is over.
  await until(async () => (await valueOf('lathe_generated_tokens_per_second')) > 0);
  // The host's own histograms are over the requests of clients; the canceled one was not ok.
  expect(await valueOf('lathe_time_to_first_token_seconds_count')).toBe(6);
});
