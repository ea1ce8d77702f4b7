import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openTelemetry, type Telemetry, type TelemetryOptions } from '../../src/telemetry/open.ts';
import { type SpanAttributes, type RackId, Tracer, type TraceSpan } from '../../src/tracing/index.ts';
import { OtlpCollector, type SeenSpan } from '../support/otlp-collector.ts';

let collector: OtlpCollector;
let notices: string[];
const opened: Telemetry[] = [];

beforeEach(async () => {
  collector = await OtlpCollector.open();
  notices = [];
});
afterEach(async () => {
  collector.answer = (response) => void response.writeHead(200).end();
  await Promise.all(opened.splice(0).map((telemetry) => telemetry.close()));
  await collector.close();
});

async function open({
  env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
  ...more
}: Partial<TelemetryOptions> = {}): Promise<Telemetry> {
  const telemetry = await openTelemetry({
    env,
    version: '1.2.3',
    instanceId: 'host-1',
    contentAllowed: () => false,
    redact: (text) => text,
    onNotice: (message) => notices.push(message),
    ...more,
  });
  if (!telemetry) throw new Error('not opened');
  opened.push(telemetry);
  return telemetry;
}

const completion: SpanAttributes['completion'] = {
  wire: 'chat',
  operation: 'chat',
  by: 'operator',
  stream: true,
  requestedModel: 'gpt-oss',
  model: 'lathe-tiny',
  answers: 1,
  promptTokens: 40,
  cachedTokens: 32,
  completionTokens: 11,
  queuedMs: 5,
  prefillMs: 20,
  decodeMs: 100,
  finish: 'stop',
};
const upstream: SpanAttributes['gateway'] = {
  wire: 'openai-chat',
  operation: 'chat',
  stream: false,
  requestedModel: 'auto',
  effectiveModel: 'gemini-2',
  provider: 'google',
  promptTokens: 7,
  completionTokens: 3,
  costNanousd: 1_234n,
  finish: 'length',
};
const task = { agent: 'scribe', engine: 'resident', model: 'lathe-tiny' } as const;
const turn = { agent: 'scribe', engine: 'gateway', model: 'auto' } as const;
const tool = { tool: 'read_file', agent: 'scribe', callId: 'call_1', toolKind: 'read' } as const;
const byName = (spans: SeenSpan[]) => new Map(spans.map((span) => [span.name, span]));

test('spans of every kind of work have their parents and the attributes of the conventions', async () => {
  const telemetry = await open();
  const watch = new Tracer([telemetry.sink]);
  const served = watch.startSpan('completion', 'req_1', { ...completion });
  served.markFirstToken();
  served.end({ outcome: 'ok', status: 200 });
  watch
    .startSpan('gateway', 'req_2', { ...upstream })
    .end({ outcome: 'failed', status: 502, code: 'upstream_error' });
  const run = watch.startSpan('run', 'run_1', { workflow: 'nightly' });
  const step = watch.startSpan(
    'step',
    'run_1:a',
    { workflow: 'nightly', step: 'a', attempts: 2 },
    { parent: run },
  );
  const root = watch.startSpan('task', 'task_1', { ...task, turns: 1 }, { parent: step });
  const answer = watch.startSpan('turn', 'task_1:1', { ...turn, calls: 1 }, { parent: root });
  answer.end({ outcome: 'ok' });
  const call = watch.startSpan('tool', 'task_1:call_1', { ...tool, staged: true }, { parent: answer });
  for (const work of [call, root, step]) work.end({ outcome: 'refused', code: 'not_allowed' });
  run.end({ outcome: 'abandoned' });
  await telemetry.close();

  const spans = byName(collector.spans());
  expect([...spans.keys()].sort()).toEqual([
    'chat auto',
    'chat gpt-oss',
    'execute_tool read_file',
    'invoke_agent scribe',
    'lathe.run',
    'lathe.step',
  ]);
  // Two requests and a turn are `chat auto`: the turn came later.
  const all = collector.spans();
  expect(all).toHaveLength(7);
  expect(spans.get('chat gpt-oss')).toMatchObject({
    kind: 2,
    status: { code: 0 },
    parentSpanId: undefined,
    events: [],
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'lathe',
      'gen_ai.request.model': 'gpt-oss',
      'gen_ai.request.stream': true,
      'gen_ai.response.model': 'lathe-tiny',
      'gen_ai.response.id': 'req_1',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.time_to_first_chunk': expect.any(Number) as number,
      'gen_ai.usage.input_tokens': 40,
      'gen_ai.usage.cache_read.input_tokens': 32,
      'gen_ai.usage.output_tokens': 11,
      'lathe.wire': 'chat',
      'lathe.outcome': 'ok',
      'lathe.decode.duration': 0.1,
      'http.response.status_code': 200,
    },
    resource: { 'service.name': 'lathe', 'service.version': '1.2.3', 'service.instance.id': 'host-1' },
  });
  const gateway = all.find(({ attributes }) => attributes['gen_ai.response.id'] === 'req_2');
  expect(gateway).toMatchObject({
    name: 'chat auto',
    kind: 2,
    status: { code: 2, message: 'upstream_error' },
    attributes: {
      'gen_ai.provider.name': 'gcp.gemini',
      'gen_ai.request.model': 'auto',
      'gen_ai.response.model': 'gemini-2',
      'error.type': 'upstream_error',
      'lathe.gateway.cost': 1234,
    },
  });
  const chain = ['lathe.run', 'lathe.step', 'invoke_agent scribe', 'chat auto', 'execute_tool read_file'];
  for (const [index, name] of chain.entries()) {
    const parent = spans.get(chain[index - 1] ?? '');
    expect([name, spans.get(name)?.parentSpanId]).toEqual([name, parent?.spanId]);
    expect(spans.get(name)?.traceId).toBe(spans.get('lathe.run')?.traceId);
    expect((spans.get(name)?.flags ?? 0) & 0x200).toBe(0);
  }
  expect(spans.get('lathe.step')?.attributes).toMatchObject({
    'gen_ai.workflow.name': 'nightly',
    'lathe.step.name': 'a',
    'lathe.step.attempts': 2,
  });
  expect(spans.get('invoke_agent scribe')).toMatchObject({
    kind: 1,
    status: { code: 0 },
    attributes: {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': 'scribe',
      'gen_ai.provider.name': 'lathe',
      'error.type': 'not_allowed',
    },
  });
  expect(spans.get('chat auto')).toMatchObject({
    kind: 3,
    attributes: { 'gen_ai.provider.name': 'lathe.gateway', 'lathe.tool.calls': 1 },
  });
  expect(spans.get('execute_tool read_file')).toMatchObject({
    kind: 1,
    attributes: {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'read_file',
      'gen_ai.tool.call.id': 'call_1',
      'gen_ai.tool.type': 'function',
      'lathe.tool.staged': true,
    },
  });
  expect(spans.get('lathe.run')?.attributes).toMatchObject({ 'error.type': 'abandoned' });
});

test('calls of the resident model are internal spans; facts that are set later are on the span', async () => {
  const telemetry = await open();
  const watch = new Tracer([telemetry.sink]);
  const work = watch.startSpan('completion', 'req_1', {
    wire: 'embeddings',
    operation: 'embeddings',
    by: 'x',
    stream: false,
  });
  work.attributes.requestedModel = 'late';
  work.end({ outcome: 'ok' });
  watch.startSpan('turn', 't:1', { ...turn, engine: 'resident' }).end({ outcome: 'ok' });
  await telemetry.close();
  const [embedded, answered] = collector.spans();
  expect(embedded).toMatchObject({ name: 'embeddings late', attributes: { 'gen_ai.request.model': 'late' } });
  expect(embedded?.attributes).not.toHaveProperty('gen_ai.usage.output_tokens');
  expect(embedded?.attributes).not.toHaveProperty('gen_ai.request.stream');
  expect(answered).toMatchObject({ name: 'chat auto', kind: 1 });
});

describe('the trace context of a request', () => {
  const theirs = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const begin = (telemetry: Telemetry, traceparent: string | undefined): TraceSpan =>
    new Tracer([telemetry.sink]).startSpan('completion', 'r', { ...completion }, { traceparent });

  test('is continued, and work reports its own span in it', async () => {
    const telemetry = await open();
    const work = begin(telemetry, theirs);
    work.end({ outcome: 'ok' });
    await telemetry.close();
    const [span] = collector.spans();
    expect(span).toMatchObject({ traceId: theirs.slice(3, 35), parentSpanId: theirs.slice(36, 52) });
    expect(work.traceparent).toBe(`00-${theirs.slice(3, 35)}-${span?.spanId}-01`);
    expect((span?.flags ?? 0) & 0x200).toBe(0x200);
  });

  test('is not sampled when the caller does not sample it, and is propagated so', async () => {
    const telemetry = await open();
    const work = begin(telemetry, theirs.replace(/01$/, '00'));
    work.end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.spans()).toEqual([]);
    expect(work.traceparent).toMatch(
      new RegExp(`^00-${theirs.slice(3, 35)}-(?!${theirs.slice(36, 52)})[0-9a-f]{16}-00$`),
    );
    expect(collector.metrics().get('gen_ai.server.request.duration')?.points).toHaveLength(1);
  });

  test.each([
    undefined,
    '',
    'nonsense',
    theirs.toUpperCase(),
    `${theirs}-more`,
    theirs.replace(/^00/, 'ff'),
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
    `${theirs}\r\nx-evil: 1`,
  ])('%j is invalid: a new trace begins', async (traceparent) => {
    const telemetry = await open();
    const work = begin(telemetry, traceparent);
    work.end({ outcome: 'ok' });
    await telemetry.close();
    const [span] = collector.spans();
    expect(span?.parentSpanId).toBeUndefined();
    expect(span?.traceId).not.toBe(theirs.slice(3, 35));
    expect(work.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  });

  test('of a later version is parsed', async () => {
    const telemetry = await open();
    begin(telemetry, `${theirs.replace(/^00/, '01')}-what-comes`).end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.spans()[0]?.traceId).toBe(theirs.slice(3, 35));
  });

  test('a sampler that drops all spans does not affect metrics', async () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_SAMPLER: 'always_off' };
    const telemetry = await open({ env });
    begin(telemetry, theirs).end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.requests.map(({ path }) => path)).toEqual(['/v1/metrics']);
  });
});

test('metrics, with the units, boundaries and attributes of the conventions', async () => {
  const telemetry = await open();
  const watch = new Tracer([telemetry.sink]);
  const served = watch.startSpan('completion', 'r', { ...completion, firstTokenMs: 0 });
  served.end({ outcome: 'ok' });
  watch
    .startSpan('completion', 'r', { ...completion, requestedModel: 'no-such' })
    .end({ outcome: 'refused', status: 404 });
  for (let n = 0; n < 2; n++) watch.startSpan('gateway', 'g', { ...upstream }).end({ outcome: 'ok' });
  watch.startSpan('turn', 't', { ...turn, promptTokens: 5, completionTokens: 2 }).end({ outcome: 'ok' });
  watch.startSpan('task', 't', { ...task }).end({ outcome: 'ok' });
  watch.startSpan('tool', 'c', { ...tool }).end({ outcome: 'failed', code: 'tool_failed' });
  await telemetry.close();

  const metrics = collector.metrics();
  const points = (name: string) => metrics.get(name)?.points ?? [];
  expect(Object.fromEntries([...metrics].map(([name, { unit }]) => [name, unit]))).toEqual({
    'gen_ai.client.operation.duration': 's',
    'gen_ai.client.token.usage': '{token}',
    'gen_ai.server.request.duration': 's',
    'gen_ai.server.time_per_output_token': 's',
    'gen_ai.server.time_to_first_token': 's',
    'lathe.gateway.cost': '{nanousd}',
  });
  const own = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'lathe',
    'gen_ai.request.model': 'gpt-oss',
    'gen_ai.response.model': 'lathe-tiny',
  };
  expect(
    points('gen_ai.server.request.duration').map(({ attributes, count }) => [attributes, count]),
  ).toEqual([
    [own, 1],
    // Unknown models must not fill the memory.
    [{ ...own, 'gen_ai.request.model': '_OTHER', 'error.type': '404' }, 1],
    [
      {
        ...own,
        'gen_ai.provider.name': 'gcp.gemini',
        'gen_ai.request.model': 'auto',
        'gen_ai.response.model': 'gemini-2',
      },
      2,
    ],
  ]);
  expect(points('gen_ai.server.time_to_first_token')).toMatchObject([{ attributes: own, count: 1 }]);
  expect(points('gen_ai.server.time_per_output_token')).toMatchObject([{ attributes: own, count: 1 }]);
  expect(
    points('gen_ai.client.operation.duration').map(({ attributes }) => [
      attributes['gen_ai.operation.name'],
      attributes['error.type'],
    ]),
  ).toEqual([
    ['chat', undefined],
    ['invoke_agent', undefined],
    ['execute_tool', 'tool_failed'],
  ]);
  const tokens = points('gen_ai.client.token.usage').map(({ attributes, sum }) => [
    attributes['gen_ai.provider.name'],
    attributes['gen_ai.token.type'],
    sum,
  ]);
  expect(tokens).toEqual(
    expect.arrayContaining([
      ['lathe', 'input', 40],
      ['lathe', 'output', 11],
      ['gcp.gemini', 'input', 14],
      ['lathe.gateway', 'output', 2],
    ]),
  );
  expect(points('lathe.gateway.cost')).toMatchObject([{ value: 2468 }]);
  const bounds = (name: string) => [
    points(name)[0]?.bounds?.[0],
    points(name)[0]?.bounds?.at(-1),
    points(name)[0]?.bounds?.length,
  ];
  expect(bounds('gen_ai.server.request.duration')).toEqual([0.01, 81.92, 14]);
  expect(bounds('gen_ai.client.operation.duration')).toEqual([0.01, 81.92, 14]);
  expect(bounds('gen_ai.server.time_to_first_token')).toEqual([0.001, 10, 16]);
  expect(bounds('gen_ai.server.time_per_output_token')).toEqual([0.01, 2.5, 13]);
  expect(bounds('gen_ai.client.token.usage')).toEqual([1, 67_108_864, 14]);
});

describe('conversation content', () => {
  const secret = 'the-planted-text';
  const plant = (watch: Tracer): void => {
    const works = [
      watch.startSpan('completion', 'r', { ...completion }),
      watch.startSpan('gateway', 'g', { ...upstream }),
      watch.startSpan('task', 't', { ...task }),
      watch.startSpan('turn', 'u', { ...turn }),
      watch.startSpan('tool', 'c', { ...tool }),
    ] as unknown as TraceSpan[];
    for (const work of works) {
      for (const role of ['system', 'user', 'reasoning', 'assistant', 'tool_call', 'tool'] as const)
        work.addTranscriptEntry(role, () => `${role}: ${secret}`, secret);
      // Not a code, but a message.
      work.end({ outcome: 'failed', code: `could not read ${secret}` });
    }
  };
  /** Another sink records content, so it is available. */
  const recorder = { wantsTranscript: () => true };

  test('is not exported by default, even if another sink records it', async () => {
    const telemetry = await open();
    plant(new Tracer([recorder, telemetry.sink]));
    await telemetry.close();
    expect(collector.spans()).toHaveLength(5);
    expect(collector.allBytes).not.toContain(secret);
    expect(collector.spans()[0]?.attributes['error.type']).toBe('_OTHER');
  });

  test('is exported only for racks that allow it, in the format of the conventions, redacted', async () => {
    const racks = new Set<RackId>(['completions']);
    const telemetry = await open({
      contentAllowed: (rack) => racks.has(rack),
      redact: (text, rack) => text.replaceAll(secret, `[redacted ${rack}]`),
    });
    plant(new Tracer([telemetry.sink]));
    await telemetry.close();
    expect(collector.allBytes).not.toContain(secret);
    const telling = collector
      .spans()
      .filter(({ attributes }) =>
        Object.keys(attributes).some((name) => /messages|tool\.call\.[ar]/.test(name)),
      );
    expect(telling).toHaveLength(1);
    const inputMessages = JSON.parse(telling[0]?.attributes['gen_ai.input.messages'] as string) as unknown;
    expect(inputMessages).toEqual([
      { role: 'system', parts: [{ type: 'text', content: 'system: [redacted completions]' }] },
      { role: 'user', parts: [{ type: 'text', content: 'user: [redacted completions]' }] },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', content: 'reasoning: [redacted completions]' },
          { type: 'text', content: 'assistant: [redacted completions]' },
          {
            type: 'tool_call',
            name: '[redacted completions]',
            arguments: 'tool_call: [redacted completions]',
          },
        ],
      },
      { role: 'tool', parts: [{ type: 'tool_call_response', response: 'tool: [redacted completions]' }] },
    ]);
  });

  test('is exported only if it is allowed at the beginning and at the end', async () => {
    let allowed = false;
    const telemetry = await open({ contentAllowed: () => allowed });
    const watch = new Tracer([recorder, telemetry.sink]);
    const say = (work: TraceSpan) => work.addTranscriptEntry('user', () => secret);
    const early = watch.startSpan('completion', 'r', { ...completion }) as unknown as TraceSpan;
    say(early);
    allowed = true;
    const late = watch.startSpan('completion', 'r', { ...completion }) as unknown as TraceSpan;
    say(late);
    early.end({ outcome: 'ok' });
    await new Promise((resolve) => setImmediate(resolve));
    allowed = false;
    late.end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.spans()).toHaveLength(2);
    expect(collector.allBytes).not.toContain(secret);
  });

  test('is not exported when it cannot be redacted', async () => {
    const telemetry = await open({
      contentAllowed: () => true,
      redact: () => {
        throw new Error(secret);
      },
    });
    plant(new Tracer([telemetry.sink]));
    await telemetry.close();
    expect(collector.spans()).toHaveLength(5);
    expect(collector.spans()[0]?.attributes['lathe.content.dropped']).toBe(true);
    expect([collector.allBytes, ...notices].join('\n')).not.toContain(secret);
  });

  test('names are shortened to one line, whatever their source', async () => {
    const telemetry = await open();
    const watch = new Tracer([telemetry.sink]);
    const long = `a\n\u0000b${'x'.repeat(5000)}\ud800`;
    watch
      .startSpan('tool', 'c', { tool: long, agent: long, callId: long, toolKind: 'unknown' })
      .end({ outcome: 'ok' });
    watch.startSpan('completion', 'c', { ...completion, requestedModel: long }).end({ outcome: 'ok' });
    await telemetry.close();
    for (const { name, attributes } of collector.spans())
      for (const text of [name, ...Object.values(attributes)].filter((value) => typeof value === 'string')) {
        expect(text.length).toBeLessThan(200);
        // oxlint-disable-next-line no-control-regex -- what must not be there
        expect(text).not.toMatch(/[\u0000-\u001f]/);
      }
    expect(collector.metrics().size).toBeGreaterThan(0);
  });
});

describe('a collector that', () => {
  const faults: Record<string, OtlpCollector['answer']> = {
    'answers 500': (response) => void response.writeHead(500).end('<h1>no</h1>'),
    'answers 503 with Retry-After': (response) =>
      void response.writeHead(503, { 'retry-after': '3600' }).end(),
    'sends to another place': (response) =>
      void response.writeHead(302, { location: 'http://127.0.0.1:1' }).end(),
    hangs: () => undefined,
    'cuts the connection': (response) => void response.destroy(),
    'begins and never ends': (response) => void response.writeHead(200).write('{'),
  };

  test.each(Object.keys(faults))('%s is reported once, and delays no work', async (fault) => {
    collector.answer = faults[fault] ?? collector.answer;
    vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '300');
    try {
      const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/?key=hidden-in-the-url`,
        OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20hidden-in-a-header',
        OTEL_BSP_SCHEDULE_DELAY: '10',
        OTEL_METRIC_EXPORT_INTERVAL: '10',
      };
      const telemetry = await open({ env });
      const watch = new Tracer([telemetry.sink]);
      for (let round = 0; round < 3; round++) {
        for (let n = 0; n < 1000; n++)
          watch.startSpan('completion', 'r', { ...completion }).end({ outcome: 'ok' });
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await telemetry.close();
      const about = (signal: string) => notices.filter((notice) => notice.includes(signal));
      expect(about('traces').length).toBeLessThanOrEqual(1);
      expect(about('metrics').length).toBeLessThanOrEqual(1);
      expect(notices.length).toBeGreaterThan(0);
      expect(notices.join('\n')).toContain(`cannot be sent to ${collector.url} (`);
      expect(notices.join('\n')).not.toContain('hidden');
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('is unreachable is reported once', async () => {
    const { url } = collector;
    await collector.close();
    const telemetry = await open({ env: { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/v1/traces` } });
    const watch = new Tracer([telemetry.sink]);
    for (let n = 0; n < 3000; n++)
      watch.startSpan('completion', 'r', { ...completion }).end({ outcome: 'ok' });
    await telemetry.close();
    expect(notices.length).toBeLessThanOrEqual(1);
    collector = await OtlpCollector.open();
  });

  test('never answers does not delay closing', async () => {
    collector.answer = () => undefined;
    vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '3600000');
    try {
      const telemetry = await open();
      new Tracer([telemetry.sink]).startSpan('completion', 'r', { ...completion }).end({ outcome: 'ok' });
      await telemetry.close();
      expect(collector.requests.map(({ path }) => path).sort()).toEqual(['/v1/metrics', '/v1/traces']);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('answers with an invalid body counts as successful', async () => {
    collector.answer = (response) => void response.writeHead(200).end('\u0000{"partialSuccess":[');
    const telemetry = await open();
    new Tracer([telemetry.sink]).startSpan('completion', 'r', { ...completion }).end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.spans()).toHaveLength(1);
    expect(notices).toEqual([]);
  });

  test('is slower than the work gets the spans of a bounded queue, then new ones', async () => {
    const telemetry = await open({
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRICS_EXPORTER: 'none' },
    });
    const watch = new Tracer([telemetry.sink]);
    // All in one turn of the loop: nothing can be sent meanwhile.
    for (let n = 0; n < 5000; n++)
      watch.startSpan('completion', `r${n}`, { ...completion }).end({ outcome: 'ok' });
    // Those of the first request, and those that waited.
    await expect.poll(() => collector.spans()).toHaveLength(256 + 1024);
    watch.startSpan('task', 't', { ...task }).end({ outcome: 'ok' });
    await telemetry.close();
    expect(collector.spans()).toHaveLength(256 + 1024 + 1);
    expect(byName(collector.spans()).has('invoke_agent scribe')).toBe(true);
  });
});

test('headers are sent to the collector, and work continues when a sink throws', async () => {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/otlp/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20k1,x-a=1',
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-a=2',
    OTEL_SERVICE_NAME: 'kitchen',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=no,deployment.environment.name=a%2Cb',
  };
  const telemetry = await open({ env });
  const work = new Tracer([telemetry.sink]).startSpan('completion', 'r', { ...completion });
  Object.defineProperty(work.attributes, 'finish', {
    get() {
      throw new Error('broken');
    },
  });
  expect(() => work.end({ outcome: 'ok' })).not.toThrow();
  expect(() => new Tracer([telemetry.sink]).startSpan('completion', 'r', work.attributes)).not.toThrow();
  expect(notices).toEqual(['telemetry: an event could not be recorded: broken']);
  new Tracer([telemetry.sink]).startSpan('task', 't', { ...task }).end({ outcome: 'ok' });
  await telemetry.close();
  const seen = new Map(collector.requests.map((request) => [request.path, request]));
  expect(seen.get('/otlp/v1/traces')?.headers).toMatchObject({ authorization: 'Bearer k1', 'x-a': '1' });
  expect(seen.get('/otlp/v1/metrics')?.headers).toMatchObject({ authorization: 'Bearer k1', 'x-a': '2' });
  const resource = seen.get('/otlp/v1/traces')?.bytes.toString() ?? '';
  expect(resource).toContain('"kitchen"');
  expect(resource).toContain('"a,b"');
});
