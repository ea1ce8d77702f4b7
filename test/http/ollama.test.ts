/** Ollama's wire over a scripted engine: shapes, order, refusals, failures in the middle. */
import { describe, expect, test, vi } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { chatLine, generateLine } from '../../src/wires/ollama/line-schema.ts';
import { psAnswer, showAnswer, tagsAnswer } from '../../src/planes/ollama/model-schema.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';

const serve = scriptedServers();

const lines = async (response: Response): Promise<Record<string, unknown>[]> => {
  const text = await response.text();
  expect(text.endsWith('\n')).toBe(true);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
};
const nanos = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;
const hi = { model: 'scripted', messages: [{ role: 'user', content: 'hi' }] };
const ask = { model: 'scripted', prompt: 'hi' };
const durations = ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'];

describe('answers', () => {
  test('a conversation is answered in lines by default, with the timings on the last line', async () => {
    const { post } = await serve();
    const response = await post('/api/chat', hi);
    expect(response.headers.get('content-type')).toBe('application/x-ndjson');
    const all = await lines(response);
    for (const line of all) chatLine.strict().parse(line);
    expect(all.map(({ message }) => (message as { content: string }).content)).toEqual([
      'Hello',
      ', ',
      'world',
      '!',
      '',
    ]);
    expect(all.map(({ done }) => done)).toEqual([false, false, false, false, true]);
    for (const { created_at: at } of all) expect(at).toMatch(nanos);
    const last = all.at(-1) ?? {};
    expect(last).toMatchObject({ model: 'scripted', done_reason: 'stop', eval_count: 4 });
    for (const name of durations) expect(Number.isSafeInteger(last[name])).toBe(true);
    expect(last['prompt_eval_duration']).toBe(1_000_000);
    expect(Number(last['total_duration'])).toBeGreaterThanOrEqual(Number(last['load_duration']));
  });

  test('or as one body', async () => {
    const { post } = await serve();
    const response = await post('/api/chat', { ...hi, stream: false });
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    const answer = chatLine.strict().parse(await response.json());
    expect(answer).toMatchObject({
      message: { role: 'assistant', content: 'Hello, world!' },
      done: true,
      done_reason: 'stop',
    });
  });

  test('a prompt is rendered by the template, and the answer has a context to continue from', async () => {
    const { post, engine } = await serve();
    const all = await lines(await post('/api/generate', { ...ask, system: 'be kind' }));
    for (const line of all) generateLine.strict().parse(line);
    expect(all.map(({ response }) => response)).toEqual(['Hello', ', ', 'world', '!', '']);
    const text = engine.tokenizer.decode(engine.requests[0]?.prompt ?? [], { special: true });
    expect(text).toContain('be kind');
    const last = all.at(-1) as { context: number[] };
    expect(last.context.slice(0, -4)).toEqual(engine.requests[0]?.prompt);
  });

  test('a raw prompt is used verbatim, including markup, and has no context', async () => {
    const { post, engine } = await serve();
    const answer = (await (
      await post('/api/generate', { ...ask, prompt: '<|im_start|>x', raw: true, stream: false })
    ).json()) as Record<string, unknown>;
    expect(engine.requests[0]?.prompt).toEqual([256, 120]);
    expect('context' in answer).toBe(false);
  });

  test('the defaults are those of Ollama; options override them', async () => {
    const { post, engine } = await serve();
    await post('/api/chat', { ...hi, stream: false });
    expect(engine.requests[0]?.sampling).toMatchObject({
      temperature: 0.8,
      topK: 40,
      topP: 0.9,
      minP: 0,
      repetitionPenalty: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
    });
    const options = {
      temperature: 0,
      top_k: 0,
      top_p: 1,
      min_p: 0.1,
      repeat_penalty: 1.2,
      seed: 7,
      num_predict: 2,
      stop: ['x'],
      num_thread: 4,
    };
    const answer = (await (await post('/api/chat', { ...hi, stream: false, options })).json()) as object;
    expect(answer).toMatchObject({ done_reason: 'length', message: { content: 'Hello, ' } });
    expect(engine.requests[1]).toMatchObject({
      maxTokens: 2,
      stop: ['x'],
      sampling: { temperature: 0, topK: 0, topP: 1, minP: 0.1, repetitionPenalty: 1.2, seed: 7 },
    });
    const seeds = engine.requests.map(({ sampling }) => sampling.seed);
    await post('/api/chat', { ...hi, stream: false, options: { seed: -1 } });
    expect(seeds).not.toContain(engine.requests[2]?.sampling.seed);
  });

  test('common client options are accepted: penalty windows, many stop texts, empty stop texts', async () => {
    const { post, engine } = await serve();
    const stop = Array.from({ length: 40 }, (_, index) => `\nname${index}:`);
    const options = { repeat_last_n: 64, repeat_penalty: 1.1, stop: [...stop, ''] };
    for (const path of ['/api/chat', '/api/generate'])
      expect((await post(path, { ...hi, ...ask, stream: false, options })).status).toBe(200);
    for (const { sampling, stop: used } of engine.requests) {
      expect(sampling.repetitionPenalty).toBe(1.1);
      expect(used.slice(0, 41)).toEqual(stop);
    }
    await post('/api/chat', { ...hi, stream: false, options: { ...options, repeat_last_n: 0 } });
    expect(engine.requests.at(-1)?.sampling.repetitionPenalty).toBe(1);
  });

  test('num_predict below 1 means until the end, -2 ignores the end; num_ctx lowers the limit', async () => {
    const { post, engine } = await serve({ contextLength: 200 });
    const limits: unknown[] = [];
    for (const options of [
      {},
      { num_predict: -1 },
      { num_predict: 0 },
      { num_predict: -2 },
      { num_predict: 10_000 },
      { num_ctx: 100 },
      { num_ctx: 100_000 },
      { num_ctx: 0 },
    ]) {
      await post('/api/generate', { ...ask, stream: false, options });
      const { prompt, maxTokens, ignoreEnd } = engine.requests.at(-1) ?? { prompt: [], maxTokens: 0 };
      limits.push([prompt.length + maxTokens, ignoreEnd ?? false]);
    }
    expect(limits).toEqual([
      [200, false],
      [200, false],
      [200, false],
      [200, true],
      [200, false],
      [100, false],
      [200, false],
      [200, false],
    ]);
    const refused = await post('/api/generate', { ...ask, options: { num_ctx: 8 } });
    expect([refused.status, await refused.json()]).toEqual([
      400,
      { error: expect.stringMatching(/^This model's context holds 8 tokens, but the prompt has/) },
    ]);
  });

  test('without a prompt the model is loaded, or reported as unloaded', async () => {
    const { post, engine } = await serve();
    for (const [path, body] of [
      ['/api/generate', { model: 'scripted' }],
      ['/api/generate', { model: 'scripted', prompt: '' }],
      ['/api/chat', { model: 'scripted', messages: [] }],
      ['/api/chat', { model: 'scripted:latest' }],
    ] as const) {
      const loaded = (await (await post(path, body)).json()) as Record<string, unknown>;
      expect(loaded).toMatchObject({ done: true, done_reason: 'load' });
      const unloaded = await (await post(path, { ...body, keep_alive: 0 })).json();
      expect(unloaded).toMatchObject({ done: true, done_reason: 'unload' });
    }
    expect(engine.requests).toEqual([]);
    expect(engine.closed).toBe(false);
  });

  test('calls have objects as arguments, each on a line of its own', async () => {
    const { post } = await serve({
      answer: () => [
        'I look.',
        '<tool_call>\n{"name": "get", "arguments": {"city": "Oslo",',
        ' "days": 2}}\n</tool_call>\n',
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
      ],
    });
    const tools = ['get', 'now'].map((name) => ({ type: 'function', function: { name, parameters: {} } }));
    const calls = [
      { id: expect.any(String), function: { index: 0, name: 'get', arguments: { city: 'Oslo', days: 2 } } },
      { id: expect.any(String), function: { index: 1, name: 'now', arguments: {} } },
    ];
    const all = await lines(await post('/api/chat', { ...hi, tools }));
    for (const line of all) chatLine.strict().parse(line);
    const called = all.flatMap(({ message }) => {
      const { tool_calls: some } = message as { tool_calls?: unknown };
      return some === undefined ? [] : [some];
    });
    expect(called).toEqual(calls.map((one) => [one]));
    expect(all.at(-1)).toMatchObject({ done: true, done_reason: 'stop', message: { content: '' } });
    const whole = await (await post('/api/chat', { ...hi, tools, stream: false })).json();
    expect(whole).toMatchObject({
      message: { content: expect.stringContaining('I look.'), tool_calls: calls },
    });
  });

  test.each(['/api/chat', '/api/generate'])('reasoning is separate from the answer: %s', async (path) => {
    const { post, grammars } = await serve({
      chatTemplate: thinkingTemplate,
      answer: () => ['<think>\nHm', '.</think>\n\n', 'Hel', 'lo'],
    });
    const columnsOf = (line: Record<string, unknown>) => {
      const { content, thinking } = (line['message'] ?? line) as { content?: string; thinking?: string };
      return [thinking ?? '', content ?? (line['response'] as string)];
    };
    for (const think of [undefined, true, 'high']) {
      const all = await lines(await post(path, { ...hi, ...ask, think }));
      for (const line of all) (path === '/api/chat' ? chatLine : generateLine).strict().parse(line);
      const columns = all.map(columnsOf);
      expect(columns.map(([thinking]) => thinking).join('')).toBe('Hm.');
      expect(columns.map(([, content]) => content).join('')).toBe('Hello');
      const whole = (await (await post(path, { ...hi, ...ask, think, stream: false })).json()) as object;
      expect(columnsOf({ ...whole })).toEqual(['Hm.', 'Hello']);
    }
    const bound = await post(path, { ...hi, ...ask, think: true, format: 'json', stream: false });
    expect(bound.status).toBe(200);
    expect(columnsOf((await bound.json()) as Record<string, unknown>)[0]).toBe('Hm.');
    // Reasoning is not JSON: the grammar of the answer allows it before the JSON.
    expect(JSON.stringify(grammars.compiled.at(-1))).toContain('think');
  });

  test('results of calls are accepted', async () => {
    const { post, engine } = await serve();
    const messages = [
      { role: 'user', content: 'weather?' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ function: { name: 'get', arguments: { city: 'Oslo' } } }],
      },
      { role: 'tool', tool_name: 'get', content: 'rain' },
    ];
    const response = await post('/api/chat', { ...hi, messages, stream: false });
    expect(response.status).toBe(200);
    expect(engine.requests).toHaveLength(1);
  });

  test('an error in the middle is the last line', async () => {
    const { post } = await serve({
      fail: { after: 2, error: new EngineError('device_lost', 'the GPU was lost') },
    });
    const response = await post('/api/chat', hi);
    expect(response.status).toBe(200);
    expect((await lines(response)).at(-1)).toEqual({ error: 'the GPU was lost' });
    const buffered = await post('/api/chat', { ...hi, stream: false });
    expect([buffered.status, await buffered.json()]).toEqual([503, { error: 'the GPU was lost' }]);
  });

  test('a client that disconnects stops the answer', async () => {
    const { post, engine } = await serve({ answer: () => Array<string>(1000).fill('x'), delayMs: 5 });
    const gone = new AbortController();
    const response = await post('/api/generate', ask, { signal: gone.signal });
    await response.body?.getReader().read();
    gone.abort();
    await expect.poll(() => engine.aborted).toBe(1);
  });
});

describe('refusals', () => {
  test.each([
    ['images', { images: ['AAAA'] }, /images: this model reads text and no images/],
    ['a template', { template: '{{ .Prompt }}' }, /template: templates in Go's language/],
    ['a strange format', { format: 'yaml' }, /format: expected 'json' or a JSON schema/],
    ['a bad duration', { keep_alive: 'soon' }, /keep_alive: expected seconds or a duration/],
    ['mirostat', { options: { mirostat: 2 } }, /options.mirostat: mirostat is not supported/],
    ['typical_p', { options: { typical_p: 0.5 } }, /options.typical_p: typical_p is not supported/],
    ['a bad temperature', { options: { temperature: -1 } }, /temperature: expected a number from 0/],
    ['thinking that the model cannot', { think: true }, /"scripted" does not support thinking/],
    ['a strange level of thinking', { think: '' }, /think: expected true, false or one of low, medium, high/],
    ['tokens that do not exist', { context: [100_000] }, /context: no such token: 100000/],
    ['a system text beside raw', { raw: true, system: 'x' }, /system: cannot be combined with `raw`/],
  ])('%s', async (_, members, message) => {
    const { post } = await serve();
    const response = await post('/api/generate', { ...ask, ...members });
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: string }).error).toMatch(message);
  });

  test('values without effect are accepted', async () => {
    const { post } = await serve();
    const response = await post('/api/generate', {
      ...ask,
      images: [],
      template: '',
      format: '',
      keep_alive: '5m',
      think: false,
      suffix: '',
      context: [],
      stream: false,
      options: { mirostat: 0, typical_p: 1, tfs_z: 1, repeat_last_n: 64, num_gpu: 99, unknown: 'x' },
    });
    expect(response.status).toBe(200);
  });

  test('images in a message, and other roles', async () => {
    const { post } = await serve();
    const messages = [{ role: 'user', content: 'x', images: ['AAAA'] }, { role: 'alien' }];
    const { error } = (await (await post('/api/chat', { ...hi, messages })).json()) as { error: string };
    expect(error).toMatch(
      /messages.0.images: this model reads text.*messages.1.role: expected one of the roles/,
    );
  });

  test('unknown models, no model name, and a host without a model', async () => {
    const { post } = await serve();
    for (const path of ['/api/chat', '/api/generate', '/api/show', '/api/embed', '/api/create']) {
      const response = await post(path, {
        model: 'absent:7b',
        prompt: 'x',
        input: 'x',
        from: 'absent:7b',
        stream: false,
      });
      expect([path, response.status, await response.json()]).toEqual([
        path,
        404,
        { error: expect.stringMatching(/^model 'absent:7b' not found; .*GET \/api\/tags lists the models$/) },
      ]);
    }
    const none = await post('/api/chat', { messages: [] });
    expect([none.status, await none.json()]).toEqual([
      400,
      { error: expect.stringMatching(/^model: is required/) },
    ]);
    const bare = await serve({}, 'none');
    expect((await bare.post('/api/chat', hi)).status).toBe(503);
    expect(await (await bare.get('/api/ps')).json()).toEqual({ models: [] });
  });

  test('an embedding model generates nothing; a generating model embeds too', async () => {
    const { post } = await serve({ embeds: 4 });
    expect((await post('/api/chat', hi)).status).toBe(400);
    const other = await serve();
    expect((await other.post('/api/embed', { model: 'scripted', input: 'x' })).status).toBe(200);
    const { embedding } = (await (
      await other.post('/api/embeddings', { model: 'scripted', prompt: 'x' })
    ).json()) as { embedding: number[] };
    expect(embedding).toHaveLength(8);
  });

  test('routes that this host does not serve', async () => {
    const { post } = await serve();
    for (const path of ['/api/push', '/api/me', '/api/signout']) {
      const response = await post(path, {});
      expect([response.status, await response.json()]).toEqual([501, { error: expect.any(String) }]);
    }
    const unknown = await post('/api/nothing', {});
    expect([unknown.status, await unknown.json()]).toEqual([404, { error: expect.any(String) }]);
  });

  test('JSON is accepted without a content type, but not from a page of another origin', async () => {
    const { post } = await serve();
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = { ...hi, stream: false };
    expect((await post('/api/chat', body, { headers: form })).status).toBe(200);
    const foreign = await post('/api/chat', body, { headers: { ...form, origin: 'http://evil.test' } });
    expect([foreign.status, await foreign.json()]).toEqual([
      403,
      { error: expect.stringMatching(/another origin/) },
    ]);
  });
});

describe('embeddings', () => {
  test('one text or several, truncated to the context by default', async () => {
    const { post, engine } = await serve({ embeds: 4, contextLength: 8 });
    const answer = (await (
      await post('/api/embed', { model: 'scripted', input: ['ab', 'c'.repeat(50)] })
    ).json()) as {
      embeddings: number[][];
      prompt_eval_count: number;
    };
    expect(answer.embeddings.map(({ length }) => length)).toEqual([4, 4]);
    expect(answer).toMatchObject({
      model: 'scripted',
      prompt_eval_count: 10,
      total_duration: expect.any(Number),
      load_duration: expect.any(Number),
    });
    expect(engine.embedRequests[0]?.inputs.map(({ length }) => length)).toEqual([2, 8]);
    // Characters without tokens do not count.
    const encode = engine.tokenizer.encode.bind(engine.tokenizer);
    vi.spyOn(engine.tokenizer, 'encode').mockImplementation((text, options) =>
      encode(text.replaceAll(' ', ''), options),
    );
    const sparse = {
      model: 'scripted',
      input: [`${' '.repeat(2000)}abc`, `${' '.repeat(1000)}${'d'.repeat(1000)}`],
    };
    expect((await post('/api/embed', sparse)).status).toBe(200);
    expect(engine.embedRequests.at(-1)?.inputs.map(({ length }) => length)).toEqual([3, 8]);
    const spaces = await post('/api/embed', { model: 'scripted', input: ' '.repeat(3000) });
    expect(await spaces.json()).toEqual({
      error: expect.stringContaining('input has 3000 characters (at most 2048 are read)'),
    });
    const one = (await (
      await post('/api/embed', { model: 'scripted', input: 'ab', dimensions: 2 })
    ).json()) as {
      embeddings: number[][];
    };
    expect(one.embeddings.map(({ length }) => length)).toEqual([2]);
    const long = await post('/api/embed', { model: 'scripted', input: 'c'.repeat(50), truncate: false });
    expect([long.status, await long.json()]).toEqual([
      400,
      { error: expect.stringMatching(/up to 8 tokens/) },
    ]);
    expect((await post('/api/embed', { model: 'scripted', input: 'x', dimensions: 5 })).status).toBe(400);
    const old = (await (await post('/api/embeddings', { model: 'scripted', prompt: 'ab' })).json()) as {
      embedding: number[];
    };
    expect(old.embedding).toEqual(answer.embeddings[0]);
    expect(await (await post('/api/embed', { model: 'scripted' })).json()).toMatchObject({ embeddings: [] });
  });
});

describe('about the host', () => {
  test('it is alive and has a version', async () => {
    const { get } = await serve();
    const root = await get('/');
    expect([root.status, root.headers.get('content-type'), await root.text()]).toEqual([
      200,
      'text/plain;charset=UTF-8',
      'Ollama is running',
    ]);
    expect((await get('/', { method: 'HEAD' })).status).toBe(200);
    expect(await (await get('/api/version')).json()).toEqual({
      version: expect.stringMatching(/^0\.(?:[3-9]\d|\d{3})\.\d+$/),
      host_version: '0.0.0',
    });
    expect((await get('/api/tags', { method: 'HEAD' })).status).toBe(200);
    expect(await (await get('/api/status')).json()).toMatchObject({ cloud: { disabled: true } });
  });

  test('a resident model that is not stored is found by its listed name, including slashes', async () => {
    const { get, post, engine } = await serve();
    Object.assign(engine.model, { id: 'org/some-model' });
    const { models } = tagsAnswer.parse(await (await get('/api/tags')).json());
    expect(models[0]?.name).toBe('org/some-model:latest');
    const answer = await post('/api/chat', { ...hi, model: models[0]?.name, stream: false });
    expect(answer.status).toBe(200);
  });

  test('it lists the stored models and the resident one, and shows them', async () => {
    const { get, post } = await serve();
    const tags = tagsAnswer.strict().parse(await (await get('/api/tags')).json());
    expect(tags.models.map(({ name, model }) => [name, model])).toEqual([
      ['scripted:latest', 'scripted:latest'],
      ['lathe-tiny:latest', 'lathe-tiny:latest'],
    ]);
    expect(tags.models[1]).toMatchObject({
      size: expect.any(Number),
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      details: {
        format: 'gguf',
        family: 'llama',
        families: ['llama'],
        parameter_size: '3.7M',
        quantization_level: 'Q8_0',
      },
    });
    const ps = psAnswer.strict().parse(await (await get('/api/ps')).json());
    expect(ps.models).toMatchObject([
      { name: 'scripted:latest', context_length: 4096, size: 4096, size_vram: 4096 },
    ]);
    const show = showAnswer.strict().parse(await (await post('/api/show', { model: 'lathe-tiny' })).json());
    expect(show.capabilities).toEqual(['completion', 'tools', 'insert']);
    expect(show.model_info).toMatchObject({
      'general.architecture': 'llama',
      'llama.context_length': 1024,
      'general.parameter_count': 3_672_320,
      'lathe.pooling': 'last',
      'tokenizer.ggml.tokens': null,
    });
    expect(show.template).toContain('im_start');
    const whole = showAnswer.parse(
      await (await post('/api/show', { name: 'lathe-tiny', verbose: true })).json(),
    );
    expect((whole.model_info['tokenizer.ggml.tokens'] as string[]).length).toBe(2048);
  });
});
