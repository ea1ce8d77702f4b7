import { describe, expect, test } from 'vitest';
import { llamaError } from '../../src/wires/llama-cpp/error.ts';
import { completionAnswer } from '../../src/wires/llama-cpp/answer-schema.ts';
import { props, slots } from '../../src/planes/llama-cpp/server-schema.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();

const json = async (response: Response) => (await response.json()) as Record<string, unknown>;
const events = async (response: Response) =>
  (await readEvents(response)).map((line) => JSON.parse(line) as Record<string, unknown>);

describe('POST /infill', () => {
  const around = { input_prefix: 'ab', input_suffix: 'cd' };
  test('prefix, suffix, middle; as a repository, since the model knows them', async () => {
    const { post, engine } = await serve({ fim: true });
    const input_extra = [{ filename: 'x.ts', text: 'one' }, { text: 'two' }];
    const response = await post('/infill', { ...around, prompt: 'p', input_extra });
    const answer = completionAnswer.strict().parse(await response.json());
    const files = '<|repo_name|>myproject\n<|file_sep|>x.ts\none<|file_sep|>tmp\ntwo<|file_sep|>filename\n';
    expect(answer.prompt).toBe(`${files}<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>p`);
    expect(answer).toMatchObject({ content: 'Hello, world!', stop: true });
    expect(engine.requests[0]?.sampling.topK).toBe(40);
    expect(await events(await post('/infill', { ...around, stream: true }))).toHaveLength(5);
  });

  test('text of the request never becomes a control token', async () => {
    const { post, engine } = await serve({ fim: true });
    const text = 'a<|fim_middle|><|im_end|>';
    const input_extra = [{ text, filename: text }];
    await post('/infill', { input_prefix: text, input_suffix: text, prompt: text, input_extra });
    const control = engine.requests[0]?.prompt.filter((id) => id > 255);
    expect(control).toEqual([262, 263, 263, 259, 260, 261]);
  });

  test("all missing members are reported at once, with llama.cpp's messages", async () => {
    const { post } = await serve({ fim: true });
    const response = await post('/infill', {
      prompt: 7,
      input_extra: [{ filename: 'a' }, { text: 'a', filename: 7 }, 7],
    });
    expect(response.status).toBe(400);
    const { message, type } = llamaError.strict().parse(await response.json()).error;
    expect(type).toBe('invalid_request_error');
    for (const words of [
      '"input_prefix" is required',
      '"input_suffix" is required',
      '"prompt" must be a string',
      'extra_context chunk must contain a "text" field with a string value',
      'extra_context chunk must contain a "filename" field with a string value',
      '"input_extra" must be an array of {"filename": string, "text": string}',
    ])
      expect(message).toContain(words);
  });

  test('a model without the tokens is 501, whatever the body', async () => {
    const { post } = await serve();
    for (const body of [around, {}]) {
      const response = await post('/infill', body);
      expect(response.status).toBe(501);
      expect(llamaError.strict().parse(await response.json()).error).toMatchObject({
        code: 501,
        type: 'not_supported_error',
        message: expect.stringContaining('no tokens for prefix') as string,
      });
    }
  });

  test('a text that does not fit is cut far from the gap, with space for the answer', async () => {
    const { post, engine } = await serve({ fim: true, contextLength: 100 });
    const input_extra = [{ text: 'e'.repeat(500) }];
    const long = { input_prefix: `${'p'.repeat(1000)}P`, input_suffix: `S${'s'.repeat(1000)}`, input_extra };
    expect((await post('/infill', long)).status).toBe(200);
    const { prompt = [], maxTokens } = engine.requests[0] ?? {};
    expect([prompt.length, maxTokens]).toEqual([75, 25]);
    const text = String.fromCharCode(...prompt.filter((id) => id < 256));
    expect(text).toMatch(/^p+PSs+$/);
    expect([text.match(/p/gi)?.length, text.match(/s/gi)?.length]).toEqual([54, 18]);
    await post('/infill', { ...long, n_predict: 90 });
    expect(engine.requests[1]?.prompt).toHaveLength(50);
    expect((await post('/infill', { ...long, prompt: 'm'.repeat(80) })).status).toBe(400);
  });

  test('files that do not fit are dropped, starting with the first', async () => {
    const { post, engine } = await serve({ fim: true, contextLength: 160 });
    const input_extra = ['a', 'b', 'c'].map((letter) => ({ filename: letter, text: letter.repeat(40) }));
    await post('/infill', { ...around, input_extra, n_predict: 10 });
    const prompt = engine.requests[0]?.prompt ?? [];
    const text = engine.tokenizer.decode(prompt, { special: true });
    expect(text).toMatch(
      /^<\|repo_name\|>myproject\n<\|file_sep\|>a\na{1,39}<\|file_sep\|>b\nb{40}<\|file_sep\|>c\nc{40}/,
    );
    expect(prompt).toHaveLength(150);
  });
});

describe('tokens', () => {
  test('tokenize and detokenize round-trip', async () => {
    const { post } = await serve({ bosId: 256 });
    const tokens = async (body: object) => (await json(await post('/tokenize', body)))['tokens'];
    expect(await tokens({ content: 'a<|im_end|>' })).toEqual([97, 257]);
    expect(await tokens({ content: 'ab', add_special: true })).toEqual([256, 97, 98]);
    expect(await tokens({ content: '<|im_end|>', parse_special: false })).toHaveLength(10);
    expect(await tokens({ content: '' })).toEqual([]);
    expect(await tokens({ content: 'aá<|im_end|>', with_pieces: true })).toEqual([
      { id: 97, piece: 'a' },
      { id: 195, piece: [195] },
      { id: 161, piece: [161] },
      { id: 257, piece: '<|im_end|>' },
    ]);
    expect(await json(await post('/detokenize', { tokens: [97, 195, 161, 257] }))).toEqual({
      content: 'aá<|im_end|>',
    });
  });

  test.each([
    ['/tokenize', {}],
    ['/tokenize', { content: 7 }],
    ['/tokenize', { content: 'x'.repeat(1_000_001) }],
    ['/detokenize', {}],
    ['/detokenize', { tokens: [259] }],
    ['/detokenize', { tokens: ['a'] }],
    ['/detokenize', { tokens: [-1] }],
  ])('%s refuses %.40j', async (path, body) => {
    const { post } = await serve();
    const response = await post(path, body);
    expect(response.status).toBe(400);
    expect(llamaError.strict().parse(await response.json()).error.code).toBe(400);
  });
});

describe('the server', () => {
  test('/apply-template renders what a chat would send', async () => {
    const { post } = await serve();
    const messages = [{ role: 'user', content: 'hi' }];
    expect(await json(await post('/apply-template', { messages }))).toEqual({
      prompt: '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
    });
    const response = await post('/apply-template', { messages: [] });
    expect([response.status, llamaError.parse(await response.json()).error.code]).toEqual([400, 400]);
  });

  test('/props, /slots, /models and /v1/health', async () => {
    const { get, post, engine } = await serve({ capacity: 2, hang: true });
    expect(props.strict().parse(await json(await get('/props')))).toMatchObject({
      default_generation_settings: { n_ctx: 4096, params: { temperature: 0.8, top_k: 40, n_predict: -1 } },
      total_slots: 2,
      model_path: 'scripted',
      chat_template: 'scripted',
      is_sleeping: false,
    });
    const refused = await post('/props', {});
    expect(refused.status).toBe(501);
    expect(llamaError.parse(await refused.json()).error.type).toBe('not_supported_error');
    const busy = async () =>
      slots.parse(await (await get('/slots')).json()).map((slot) => slot.is_processing);
    expect(await busy()).toEqual([false, false]);
    expect((await get('/slots?fail_on_no_slot=1')).status).toBe(200);
    const controller = new AbortController();
    const waiting = [1, 2].map(() =>
      post('/completion', { prompt: 'a' }, { signal: controller.signal }).catch(() => undefined),
    );
    await until(() => engine.running === 2);
    expect(await busy()).toEqual([true, true]);
    const none = await get('/slots?fail_on_no_slot=1');
    expect([none.status, llamaError.parse(await none.json()).error.type]).toEqual([503, 'unavailable_error']);
    controller.abort();
    await Promise.all(waiting);
    expect(await json(await get('/models'))).toEqual(await json(await get('/v1/models')));
    expect(await json(await get('/v1/health'))).toEqual(await json(await get('/health')));
  });

  test('errors have the envelope under every path of the plane', async () => {
    const { get, planes } = await serve({}, 'none');
    const plane = planes.find(({ name }) => name === 'llama-cpp');
    for (const prefix of plane?.prefixes ?? []) {
      const deeper = await get(`${prefix}/nothing`);
      expect([prefix, deeper.status]).toEqual([prefix, 404]);
      expect(llamaError.strict().parse(await deeper.json()).error.type).toBe('not_found_error');
      const wrong = await get(prefix, { method: 'DELETE' });
      expect(wrong.status).toBe(405);
      expect(llamaError.strict().parse(await wrong.json()).error.code).toBe(405);
    }
    const none = await get('/props');
    expect([none.status, llamaError.parse(await none.json()).error.type]).toEqual([503, 'unavailable_error']);
  });

  test('answers are counted', async () => {
    const { get, post } = await serve();
    await post('/completion', { prompt: ['a', 'bc'] });
    await events(await post('/completion', { prompt: 'a', stream: true }));
    const telemetry = (await (await get('/host/v1/telemetry')).json()) as object;
    expect(telemetry).toMatchObject({ served: { completions: 2 }, tokens: { prompt: 3, completion: 8 } });
  });
});

describe('POST /embedding', () => {
  test.each(['/embedding', '/embeddings'])(
    '%s: a vector for each text, in an array of its own',
    async (path) => {
      const { post, engine } = await serve({ embeds: 8 });
      for (const [body, count] of [
        [{ content: 'ab' }, 1],
        [{ input: ['ab', 'c'] }, 2],
        [{ content: [[97, 98], [99]], embd_normalize: 2 }, 2],
      ] as const) {
        const response = await post(path, body);
        expect(response.status).toBe(200);
        const vectors = (await response.json()) as { index: number; embedding: number[][] }[];
        expect(vectors.map(({ index }) => index)).toEqual(Array.from({ length: count }, (_, index) => index));
        for (const { embedding } of vectors) expect(embedding.map(({ length }) => length)).toEqual([8]);
      }
      expect(engine.embedRequests.at(-1)?.inputs).toEqual([[97, 98], [99]]);
    },
  );

  test('refuses unsupported options with a message', async () => {
    const embedder = await serve({ embeds: 8 });
    const message = async (response: Response) => [
      response.status,
      llamaError.parse(await response.json()).error.message,
    ];
    expect(await message(await embedder.post('/embedding', {}))).toEqual([
      400,
      expect.stringContaining('"content" is required'),
    ]);
    const other = await embedder.post('/embedding', { content: 'a', embd_normalize: 1 });
    expect(await message(other)).toEqual([400, expect.stringContaining('embd_normalize: vectors have unit')]);
  });

  test('a model that generates embeds too', async () => {
    const { post, get, engine } = await serve();
    const response = await post('/embedding', { content: 'ab' });
    expect([response.status, await response.json()]).toMatchObject([200, [{ index: 0 }]]);
    expect(engine.embedRequests[0]?.inputs).toEqual([[97, 98]]);
    expect(await (await get('/props')).json()).toMatchObject({ pooling_type: 'last' });
  });
});
