import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { HttpError } from '../../src/http/error.ts';
import type { CompletionAttributes } from '../../src/tracing/index.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';
import type { Script } from '../support/scripted-engine.ts';
import { until } from '../support/until.ts';
import { transcriptLines, createSpanRecorder } from '../support/span-recorder.ts';

const servers = scriptedServers();
const serve = async (script: Script = {}, { kept = [] }: { kept?: 'completions'[] } = {}) => {
  const watched = createSpanRecorder(kept);
  return { ...watched, ...(await servers(script, 'ready', undefined, [watched.sink])) };
};
type Host = Awaited<ReturnType<typeof serve>>;

/** The span of the only request so far. */
const only = ({ spansOf: of, expectAllEnded: expectWhole }: Host) => {
  expectWhole();
  const works = of('completion');
  expect(works).toHaveLength(1);
  return works[0]!;
};
const over = async (host: Host, count = 1) => await until(() => host.ended.length === count);

interface Wire {
  readonly path: string;
  readonly body: object;
  readonly wire: CompletionAttributes['wire'];
  readonly operation: CompletionAttributes['operation'];
  /** Refused by the schema. */
  readonly wrong: object;
  /** What it says. */
  readonly requests: readonly string[];
}

const user = { role: 'user', content: 'hi' };
const wires: readonly Wire[] = [
  {
    path: '/v1/chat/completions',
    body: { model: 'scripted', messages: [user] },
    wire: 'chat',
    operation: 'chat',
    wrong: { messages: 7 },
    requests: ['user: hi'],
  },
  {
    path: '/v1/completions',
    body: { model: 'scripted', prompt: 'hi' },
    wire: 'completions',
    operation: 'text_completion',
    wrong: { prompt: {} },
    requests: ['user: hi'],
  },
  {
    path: '/v1/responses',
    body: { model: 'scripted', input: 'hi', instructions: 'be short' },
    wire: 'responses',
    operation: 'chat',
    wrong: { input: 7 },
    requests: ['system: be short', 'user: hi'],
  },
  {
    path: '/v1/messages',
    body: { model: 'scripted', messages: [user], max_tokens: 100 },
    wire: 'messages',
    operation: 'chat',
    wrong: { messages: 7 },
    requests: ['user: hi'],
  },
  {
    path: '/api/chat',
    body: { model: 'scripted', messages: [user], stream: false },
    wire: 'ollama',
    operation: 'chat',
    wrong: { model: 'scripted', messages: 7 },
    requests: ['user: hi'],
  },
  {
    path: '/api/generate',
    body: { model: 'scripted', prompt: 'hi', stream: false, raw: true },
    wire: 'ollama',
    operation: 'text_completion',
    wrong: { model: 'scripted', prompt: 7 },
    requests: ['user: hi'],
  },
  ...['/completion', '/completions'].map((path) => ({
    path,
    body: { model: 'scripted', prompt: 'hi' },
    wire: 'llama-cpp' as const,
    operation: 'text_completion' as const,
    wrong: { prompt: [] },
    requests: ['user: hi'],
  })),
  {
    path: '/infill',
    body: { model: 'scripted', input_prefix: 'h', input_suffix: 'i' },
    wire: 'llama-cpp',
    operation: 'text_completion',
    wrong: { input_prefix: 7, input_suffix: 'i' },
    requests: [
      expect.stringMatching(/^user: .*<\|fim_prefix\|>h<\|fim_suffix\|>i<\|fim_middle\|>$/s) as string,
    ],
  },
];

const script: Script = { fim: true, cached: 1 };
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

describe.each(wires)('$path is traced', ({ path, body, wire, operation, wrong, requests }) => {
  test.each([false, true])('to its end (stream: %s)', async (stream) => {
    const host = await serve(script);
    const response = await host.post(
      path,
      { ...body, stream },
      { headers: { 'content-type': 'application/json', traceparent } },
    );
    await response.text();
    await over(host);
    const { id, attributes: facts, result: ending, transcript, traceparent: trace } = only(host);
    expect(id).toBe(response.headers.get('x-request-id'));
    expect(trace).toBe(traceparent);
    expect(ending).toEqual({ outcome: 'ok', status: 200 });
    const prompt = host.engine.requests[0]?.prompt.length;
    expect(facts).toEqual({
      wire,
      operation,
      by: 'local',
      stream,
      requestedModel: 'scripted',
      model: 'scripted',
      answers: 1,
      promptTokens: prompt,
      cachedTokens: 1,
      completionTokens: 4,
      firstTokenMs: expect.any(Number),
      queuedMs: 0,
      prefillMs: 1,
      decodeMs: 1,
      finish: 'stop',
    });
    expect(transcript).toBeUndefined();
  });

  test.each([false, true])('with its transcript, where a sink keeps it (stream: %s)', async (stream) => {
    const host = await serve(script, { kept: ['completions'] });
    await (await host.post(path, { ...body, stream })).text();
    await over(host);
    expect(transcriptLines(only(host))).toEqual([...requests, 'assistant: Hello, world!']);
  });

  test('refused by the schema, for an unknown model, by a full queue', async () => {
    const host = await serve({ ...script, capacity: 0 });
    for (const sent of [wrong, { ...body, model: 'other' }, body]) await (await host.post(path, sent)).text();
    await over(host, 3);
    expect(host.spansOf('completion').map(({ result: ending }) => ending)).toEqual([
      { outcome: 'refused', status: 400, code: 'invalid_value' },
      { outcome: 'refused', status: 404, code: 'model_not_found' },
      { outcome: 'refused', status: 429, code: 'queue_full' },
    ]);
    const [unread, other] = host.spansOf('completion');
    expect(unread?.attributes).toEqual({ wire, operation, by: 'local', stream: path.startsWith('/api/') });
    expect(other?.attributes.requestedModel).toBe('other');
    expect(other?.attributes.model).toBeUndefined();
    expect(host.faults).toEqual([]);
  });

  test.each([
    { stream: false, after: 0, status: 503 },
    { stream: false, after: 2, status: 503 },
    { stream: true, after: 0, status: 503 },
    { stream: true, after: 2, status: 200 },
  ])('failed (stream: $stream, after $after pieces)', async ({ stream, after, status }) => {
    const error = new EngineError('device_lost', 'the GPU was lost');
    const host = await serve({ ...script, fail: { after, error } }, { kept: ['completions'] });
    await (await host.post(path, { ...body, stream })).text();
    await over(host);
    const work = only(host);
    expect(work.result).toEqual({ outcome: 'failed', status, code: 'device_lost' });
    expect(work.attributes.completionTokens).toBeUndefined();
    expect(work.attributes.finish).toBeUndefined();
    expect(transcriptLines(work)).toEqual([...requests, ...(after === 0 ? [] : ['assistant: Hello, '])]);
  });

  test('failed with an internal error', async () => {
    const host = await serve({ ...script, fail: { after: 0, error: new TypeError('ours') } });
    expect((await host.post(path, body)).status).toBe(500);
    expect(only(host).result).toEqual({ outcome: 'failed', status: 500, code: 'internal_error' });
    expect(host.faults).toHaveLength(1);
  });

  test.each([false, true])('abandoned (stream: %s)', async (stream) => {
    const answer = () => ['Hello', ...Array.from({ length: 2000 }, () => ' more')];
    const host = await serve({ ...script, answer, delayMs: 5 }, { kept: ['completions'] });
    const leave = new AbortController();
    const sent = host.post(
      path,
      { ...body, stream },
      { signal: leave.signal, headers: { 'content-type': 'application/json' } },
    );
    const reading = sent.then((response) => response.body?.getReader().read());
    reading.catch(() => undefined);
    await until(() => host.engine.produced > 3);
    if (stream) await reading;
    leave.abort();
    await over(host);
    const work = only(host);
    const sentStatus = stream ? { status: 200 } : {};
    expect(work.result).toEqual({ outcome: 'abandoned', code: 'client_gone', ...sentStatus });
    expect(work.attributes.firstTokenMs).toBeGreaterThan(0);
    expect(work.attributes.completionTokens).toBeUndefined();
    expect(transcriptLines(work)?.at(-1)).toMatch(/^assistant: Hello( more)+$/);
    expect(host.faults).toEqual([]);
  });

  test.each([false, true])('ended by the shutdown of the host (stream: %s)', async (stream) => {
    const host = await serve({
      ...script,
      answer: () => Array.from({ length: 2000 }, () => 'on'),
      delayMs: 5,
    });
    const sent = host.post(path, { ...body, stream }).then((response) => response.text());
    await until(() => host.engine.produced > 3);
    host.stopping.abort(new HttpError(503, 'shutting_down', 'The host is shutting down.'));
    await sent;
    const status = stream ? 200 : 503;
    expect(only(host).result).toEqual({ outcome: 'failed', status, code: 'shutting_down' });
  });
});

const embeddings = [
  {
    path: '/v1/embeddings',
    body: { model: 'scripted', input: ['a', 'bc'] },
    wire: 'embeddings',
    texts: ['a', 'bc'],
  },
  { path: '/api/embed', body: { model: 'scripted', input: ['a', 'bc'] }, wire: 'ollama', texts: ['a', 'bc'] },
  { path: '/api/embeddings', body: { model: 'scripted', prompt: 'a' }, wire: 'ollama', texts: ['a'] },
  {
    path: '/embedding',
    body: { model: 'scripted', content: ['a', 'bc'] },
    wire: 'llama-cpp',
    texts: ['a', 'bc'],
  },
  { path: '/embeddings', body: { model: 'scripted', content: 'a' }, wire: 'llama-cpp', texts: ['a'] },
] as const;

describe.each(embeddings)('$path is traced', ({ path, body, wire, texts }) => {
  test('to its end, and does not count as a served completion', async () => {
    const host = await serve({ embeds: 4 }, { kept: ['completions'] });
    const response = await host.post(path, body);
    await response.text();
    const work = only(host);
    expect(work.id).toBe(response.headers.get('x-request-id'));
    expect(work.result).toEqual({ outcome: 'ok', status: 200 });
    expect(work.attributes).toEqual({
      wire,
      operation: 'embeddings',
      by: 'local',
      stream: false,
      requestedModel: 'scripted',
      model: 'scripted',
      answers: texts.length,
      promptTokens: texts.join('').length,
    });
    expect(transcriptLines(work)).toEqual(texts.map((text) => `user: ${text}`));
    const { completions_served: served } = (await (await host.get('/host/v1/info')).json()) as {
      completions_served: number;
    };
    expect(served).toBe(0);
  });

  test('refused, failed, abandoned', async () => {
    const host = await serve({ embeds: 4, capacity: 0 });
    for (const sent of [{ ...body, model: 7 }, { ...body, model: 'other' }, body])
      await (await host.post(path, sent)).text();
    host.engine.script = { embeds: 4, fail: { after: 0, error: new EngineError('device_lost', 'gone') } };
    await (await host.post(path, body)).text();
    host.engine.script = { embeds: 4, hang: true };
    const leave = new AbortController();
    const sent = host.post(path, body, {
      signal: leave.signal,
      headers: { 'content-type': 'application/json' },
    });
    await until(() => host.engine.running === 1);
    leave.abort();
    await expect(sent).rejects.toThrow();
    await over(host, 5);
    expect(host.spanResults('completion')).toEqual([
      'refused invalid_value',
      'refused model_not_found',
      'refused queue_full',
      'failed device_lost',
      'abandoned client_gone',
    ]);
  });
});

describe('several answers', () => {
  const cases = [
    { path: '/v1/chat/completions', body: { messages: [user], n: 3 }, prompts: 1, answers: 3 },
    { path: '/v1/completions', body: { prompt: ['hi', 'ho'], n: 2 }, prompts: 2, answers: 4 },
    { path: '/completion', body: { prompt: ['hi', 'ho'], n_cmpl: 2 }, prompts: 2, answers: 4 },
  ];
  test.each(cases)('of $path: each prompt is counted once', async ({ path, body, prompts, answers }) => {
    for (const stream of [false, true]) {
      const host = await serve(script, { kept: ['completions'] });
      await (await host.post(path, { ...body, stream })).text();
      await over(host);
      const work = only(host);
      const prompt = (host.engine.requests[0]?.prompt.length ?? 0) * prompts;
      expect(work.attributes).toMatchObject({
        answers,
        promptTokens: prompt,
        cachedTokens: prompts,
        completionTokens: 4 * answers,
        finish: 'stop',
      });
      const capturedLines = transcriptLines(work) ?? [];
      expect(capturedLines.filter((one) => one === 'assistant: Hello, world!')).toHaveLength(answers);
      expect(capturedLines).toHaveLength(prompts + answers);
    }
  });

  test('best_of counts discarded answers too', async () => {
    const host = await serve(script);
    await (await host.post('/v1/completions', { prompt: 'hi', best_of: 3 })).text();
    expect(only(host).attributes).toMatchObject({ answers: 3, promptTokens: 2, completionTokens: 12 });
  });

  test('some of which did not complete: the usage is unknown', async () => {
    let requests = 0;
    const answer = () => (requests++ === 0 ? ['done'] : Array.from({ length: 2000 }, () => 'on'));
    const host = await serve({ answer, delayMs: 5 });
    const leave = new AbortController();
    const headers = { 'content-type': 'application/json' };
    const body = { messages: [user], n: 2, stream: true };
    const response = await host.post('/v1/chat/completions', body, { signal: leave.signal, headers });
    await until(() => host.engine.produced > 10);
    await response.body?.getReader().read();
    leave.abort();
    await over(host);
    const { attributes: facts, result: ending } = only(host);
    expect(ending?.outcome).toBe('abandoned');
    expect(facts.promptTokens).toBeUndefined();
    expect(facts.completionTokens).toBeUndefined();
  });
});

describe('specifics of a wire', () => {
  test('disconnecting after the last piece is not abandoning', async () => {
    const host = await serve(script);
    const body = JSON.stringify({ messages: [user], stream: true });
    const headers = { 'content-type': 'application/json' };
    // Without a socket in between, because it reads ahead.
    const response = await host.app.request('/v1/chat/completions', { method: 'POST', headers, body });
    const reader = response.body!.getReader();
    for (let text = ''; !text.includes('"finish_reason":"stop"'); )
      text += new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
    await over(host);
    expect(only(host).result).toEqual({ outcome: 'ok', status: 200 });
  });

  test('disconnecting between two pieces is abandoning', async () => {
    const host = await serve(script, { kept: ['completions'] });
    const body = JSON.stringify({ prompt: 'hi', stream: true });
    const headers = { 'content-type': 'application/json' };
    const response = await host.app.request('/v1/completions', { method: 'POST', headers, body });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
    await over(host);
    const work = only(host);
    expect(work.result).toEqual({ outcome: 'abandoned', status: 200, code: 'client_gone' });
    expect(transcriptLines(work)).toEqual(['user: hi', 'assistant: Hello']);
  });

  test('reasoning, calls and results are recorded separately', async () => {
    const answer = () => [
      '<think>\nHm',
      '.</think>\n\n',
      'I look.\n',
      '<tool_call>\n{"name": "look", ',
      '"arguments": {}}\n</tool_call>',
    ];
    const host = await serve({ chatTemplate: thinkingTemplate, answer }, { kept: ['completions'] });
    const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };
    const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } };
    const messages = [
      { role: 'system', content: 'be' },
      { role: 'user', content: 'see', name: 'ann' },
      { role: 'assistant', content: 'I look', reasoning_content: 'hm', tool_calls: [call] },
      { role: 'tool', content: 'seen', tool_call_id: 'c1' },
    ];
    await (await host.post('/v1/chat/completions', { messages, tools: [tool] })).text();
    expect(transcriptLines(only(host))).toEqual([
      'system: be',
      'user ann: see',
      'reasoning: hm',
      'assistant: I look',
      'tool_call look: {"at":1}',
      'tool: seen',
      'reasoning: Hm.',
      expect.stringContaining('assistant: I look.'),
      'tool_call look: {}',
    ]);
  });

  test('a message with max_tokens 0 records nothing of the answer', async () => {
    const host = await serve(script, { kept: ['completions'] });
    const response = await host.post('/v1/messages', { model: 'scripted', messages: [user], max_tokens: 0 });
    expect(response.status).toBe(200);
    const work = only(host);
    expect(work.attributes).toMatchObject({ completionTokens: 0, finish: 'length', answers: 1 });
    expect(transcriptLines(work)).toEqual(['user: hi']);
  });

  test("an answer ended by llama.cpp's stop conditions: timings that the engine did not report are unknown", async () => {
    const answer = () => ['  a\n', '  b\n', 'c'];
    const host = await serve({ answer, cached: 1 });
    await (await host.post('/completion', { prompt: 'hi', n_indent: 2 })).text();
    const { attributes: facts, result: ending } = only(host);
    expect(ending?.outcome).toBe('ok');
    expect(facts).toMatchObject({ promptTokens: 2, finish: 'length', completionTokens: 3 });
    expect(facts.cachedTokens).toBe(1);
    expect(facts.decodeMs).toBeUndefined();
  });

  test('an Ollama request that only loads the model ends with ok and no answers', async () => {
    const host = await serve(script);
    await (await host.post('/api/chat', { model: 'scripted' })).text();
    await (await host.post('/api/generate', { model: 'scripted', stream: false })).text();
    for (const { attributes: facts, result: ending } of host.spansOf('completion')) {
      expect(ending).toEqual({ outcome: 'ok', status: 200 });
      expect(facts.model).toBe('scripted');
      expect(facts.finish).toBeUndefined();
    }
    expect((await (await host.get('/host/v1/info')).json()) as object).toMatchObject({
      completions_served: 0,
    });
  });

  test('an invalid body with an invalid trace context', async () => {
    const host = await serve(script);
    const headers = { 'content-type': 'application/json', traceparent: '00-nonsense' };
    await (await host.post('/v1/chat/completions', '{', { headers })).text();
    expect(only(host).traceparent).toBeUndefined();
    expect(only(host).result).toMatchObject({ outcome: 'refused', status: 400 });
  });

  test('other routes are not traced', async () => {
    const host = await serve(script);
    await (await host.get('/v1/models')).text();
    await (await host.post('/tokenize', { content: 'a' })).text();
    await (await host.post('/v1/messages/count_tokens', { model: 'scripted', messages: [user] })).text();
    await (await host.post('/v1/chat/nothing', {})).text();
    await (await host.get('/v1/chat/completions')).text();
    expect(host.started).toEqual([]);
  });
});
