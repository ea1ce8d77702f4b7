import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatExposition } from '../../src/telemetry/prometheus-text.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { perOutputTokenMs } from '../../src/telemetry/per-output-token.ts';
import { type SpanAttributes, Tracer } from '../../src/tracing/index.ts';
import { readPrometheus } from '../support/prometheus.ts';

function world() {
  const metrics = new Metrics();
  const text = () => formatExposition(metrics.families());
  return { watch: new Tracer([metrics]), text, read: () => readPrometheus(text()) };
}
const completion: SpanAttributes['completion'] = { wire: 'chat', operation: 'chat', by: 'x', stream: true };
const gateway: SpanAttributes['gateway'] = {
  wire: 'messages',
  operation: 'chat',
  stream: false,
  provider: 'anthropic',
  effectiveModel: 'claude',
};
const tool = { agent: 'a', callId: 'c', toolKind: 'read' } as const;

/** Samples by name and labels. */
const samples = (read: ReturnType<typeof readPrometheus>, name: string) =>
  Object.fromEntries(
    (read.get(name)?.samples ?? []).map(({ labels, value }) => [Object.values(labels).join(' '), value]),
  );

test('every kind of work is counted in its metrics', () => {
  const { watch, read } = world();
  const used = { promptTokens: 10, cachedTokens: 4, completionTokens: 5, firstTokenMs: 0 };
  watch.startSpan('completion', '1', { ...completion, ...used }).end({ outcome: 'ok' });
  watch.startSpan('completion', '2', { ...completion, wire: 'ollama', ...used }).end({ outcome: 'failed' });
  watch.startSpan('completion', '3', { ...completion }).end({ outcome: 'abandoned' });
  const turn = { agent: 'a', engine: 'resident', model: 'm', promptTokens: 3 } as const;
  watch.startSpan('turn', '1', { ...turn }).end({ outcome: 'ok' });
  watch.startSpan('tool', '1', { ...tool, tool: 'read_file' }).end({ outcome: 'refused' });
  watch.startSpan('gateway', '1', { ...gateway, ...used, costNanousd: 2n ** 60n }).end({ outcome: 'ok' });
  watch.startSpan('gateway', '2', { ...gateway, costNanousd: 2n ** 60n + 1n }).end({ outcome: 'ok' });
  const { provider: _, ...withoutProvider } = gateway;
  watch.startSpan('gateway', '3', withoutProvider).end({ outcome: 'refused' });
  watch.startSpan('task', '1', { agent: 'a', engine: 'resident', model: 'm' }).end({ outcome: 'ok' });
  const found = read();
  const durations = found.get('lathe_completion_duration_seconds')?.samples ?? [];
  expect(
    durations.filter(({ name }) => name.endsWith('_count')).map(({ labels, value }) => [labels, value]),
  ).toEqual([
    [{ wire: 'chat', outcome: 'ok' }, 1],
    [{ wire: 'ollama', outcome: 'failed' }, 1],
    [{ wire: 'chat', outcome: 'abandoned' }, 1],
  ]);
  for (const name of ['lathe_time_to_first_token_seconds', 'lathe_time_per_output_token_seconds'])
    expect(found.get(name)?.samples.at(-1)).toEqual({
      name: `${name}_count`,
      labels: { wire: 'chat' },
      value: 1,
    });
  expect(samples(found, 'lathe_completion_usage_tokens_total')).toEqual({
    'chat input': 10,
    'chat cached': 4,
    'chat output': 5,
    'ollama input': 10,
    'ollama cached': 4,
    'ollama output': 5,
  });
  expect(samples(found, 'lathe_agent_turns_total')).toEqual({ 'resident ok': 1 });
  expect(samples(found, 'lathe_agent_tokens_total')).toEqual({ 'resident input': 3 });
  expect(samples(found, 'lathe_tool_calls_total')).toEqual({ 'read_file refused': 1 });
  expect(samples(found, 'lathe_gateway_requests_total')).toEqual({
    'messages anthropic ok': 2,
    'messages lathe.gateway refused': 1,
  });
  expect(samples(found, 'lathe_gateway_tokens_total')).toMatchObject({ 'anthropic claude cached': 4 });
});

test('cost is exact', () => {
  const { watch, text } = world();
  for (const cost of [2n ** 60n, 1n, 0n])
    watch.startSpan('gateway', '1', { ...gateway, costNanousd: cost }).end({ outcome: 'ok' });
  expect(text()).toContain(
    `lathe_gateway_cost_nanousd_total{provider="anthropic",model="claude"} ${2n ** 60n + 1n}\n`,
  );
});

test('a duration is counted in the first bucket whose bound it does not exceed', () => {
  const { watch, read } = world();
  for (const firstTokenMs of [0, 5, 5.1, 10, 30_000, 40_000])
    watch.startSpan('completion', '1', { ...completion, firstTokenMs }).end({ outcome: 'ok' });
  const { samples: all = [] } = read().get('lathe_time_to_first_token_seconds') ?? {};
  const of = (le: string) => all.find(({ labels }) => labels['le'] === le)?.value;
  expect(['0.005', '0.01', '10', '30', '+Inf'].map(of)).toEqual([2, 4, 4, 5, 6]);
  expect(all.find(({ name }) => name.endsWith('_sum'))?.value).toBeCloseTo(70.0201);
});

test('time per output token counts the tokens after the first, when it is known', () => {
  const { watch } = world();
  const pace = (facts: Partial<SpanAttributes['completion']>, totalMs = 1100) => {
    const work = watch.startSpan('completion', '1', { ...completion, ...facts });
    work.totalMs = totalMs;
    return perOutputTokenMs(work);
  };
  expect(pace({ firstTokenMs: 100, completionTokens: 11 })).toBe(100);
  expect(pace({ firstTokenMs: 100, completionTokens: 11, answers: 1 })).toBe(100);
  expect(pace({ firstTokenMs: 1200, completionTokens: 11 })).toBe(0);
  expect(pace({ firstTokenMs: 100, completionTokens: 11, answers: 2 })).toBeUndefined();
  expect(pace({ firstTokenMs: 100, completionTokens: 1 })).toBeUndefined();
  expect(pace({ completionTokens: 11 })).toBeUndefined();
});

describe('memory stays bounded', () => {
  const size = (text: string) => text.split('\n').length;

  test('unknown tools share one label, whatever their names', () => {
    const { watch, read } = world();
    watch.startSpan('tool', '1', { ...tool, tool: 'there' }).end({ outcome: 'ok' });
    for (let n = 0; n < 10_000; n++)
      watch
        .startSpan('tool', '1', { ...tool, toolKind: 'unknown', tool: `made up ${n}` })
        .end({ outcome: 'failed' });
    watch.startSpan('tool', '1', { ...tool, toolKind: 'unknown', tool: 'there' }).end({ outcome: 'failed' });
    expect(samples(read(), 'lathe_tool_calls_total')).toEqual({
      'there ok': 1,
      '_OTHER failed': 10_000,
      'there failed': 1,
    });
  });

  test('excess tools, endpoint names and requested models add no labels', () => {
    const { watch, text } = world();
    for (let n = 0; n < 5000; n++) {
      watch.startSpan('tool', '1', { ...tool, tool: `t${n}` }).end({ outcome: 'ok' });
      watch
        .startSpan('gateway', '1', { ...gateway, provider: `openai:slug-${n}`, requestedModel: `m${n}` })
        .end({ outcome: 'ok' });
      watch.startSpan('gateway', '1', { ...gateway, provider: `p${n}` }).end({ outcome: 'ok' });
      watch
        .startSpan('completion', '1', { ...completion, requestedModel: `m${n}` })
        .end({ outcome: 'refused' });
    }
    expect(size(text())).toBeLessThan(700);
    expect(text()).toContain('lathe_tool_calls_total{tool="_OTHER",outcome="ok"} 4800\n');
    expect(text()).toContain('provider="openai",outcome="ok"} 5000\n');
  });

  test('invalid counts are ignored', () => {
    const { watch, read } = world();
    for (const promptTokens of [Number.NaN, Infinity, -5, 1.5, 7])
      watch.startSpan('gateway', '1', { ...gateway, promptTokens }).end({ outcome: 'ok' });
    expect(samples(read(), 'lathe_gateway_tokens_total')).toEqual({ 'anthropic claude input': 7 });
  });
});

test('any tool name is exported in valid syntax', () => {
  const names = fc.string({
    unit: fc.constantFrom('"', '\\', '\n', '{', '}', ',', ' ', 'a', '\u2028', '\u{1f600}', '\ud800'),
  });
  fc.assert(
    fc.property(fc.array(names, { maxLength: 5 }), (tools) => {
      const { watch, read } = world();
      for (const name of tools) watch.startSpan('tool', '1', { ...tool, tool: name }).end({ outcome: 'ok' });
      const found = read().get('lathe_tool_calls_total')?.samples ?? [];
      expect(found.reduce((sum, { value }) => sum + value, 0)).toBe(tools.length);
      const plain = tools.filter((name) => /^[a"\\{}, ]*$/.test(name));
      for (const name of plain) expect(found.map(({ labels }) => labels['tool'])).toContain(name);
    }),
  );
});

test('the text format: escapes, infinities, families without samples', () => {
  const text = formatExposition([
    {
      name: 'a_total',
      type: 'counter',
      help: 'one\\two\nthree "four"',
      samples: [{ value: 1, labels: { x: 'q"b\\s\nn' } }, { value: 5n }],
    },
    { name: 'b', type: 'gauge', help: 'None.', samples: [] },
    { name: 'c', type: 'gauge', help: 'Some.', samples: [{ value: -Infinity }] },
  ]);
  expect(text).toBe(
    '# HELP a_total one\\\\two\\nthree "four"\n# TYPE a_total counter\na_total{x="q\\"b\\\\s\\nn"} 1\na_total 5\n' +
      '# HELP b None.\n# TYPE b gauge\n# HELP c Some.\n# TYPE c gauge\nc -Inf\n',
  );
  expect(readPrometheus(text).get('a_total')?.samples[0]?.labels).toEqual({ x: 'q"b\\s\nn' });
});

test('process metrics: memory, CPU time, and event loop lag from the second scrape on', async () => {
  const { read } = world();
  const first = read();
  expect(first.get('process_resident_memory_bytes')?.samples[0]?.value).toBeGreaterThan(1e7);
  expect(first.get('process_cpu_seconds_total')?.samples[0]?.value).toBeGreaterThan(0);
  expect(first.get('lathe_event_loop_lag_seconds')?.samples).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const lags = read().get('lathe_event_loop_lag_seconds')?.samples ?? [];
  expect(lags.map(({ labels }) => labels['quantile'])).toEqual(['0.5', '0.99', '1']);
});
