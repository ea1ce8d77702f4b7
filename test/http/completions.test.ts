import { createHash } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { chatChunk, chatCompletion } from '../../src/planes/v1/chat-schema.ts';
import { completion, completionChunk } from '../../src/planes/v1/completions-schema.ts';
import { readEvents, serveScripted } from '../support/serve.ts';

const hosts: { close(): Promise<void> }[] = [];
async function serve(...options: Parameters<typeof serveScripted>) {
  const host = await serveScripted(...options);
  hosts.push(host);
  return host;
}
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

const hi = { messages: [{ role: 'user', content: 'hi' }] };
const chat = '/v1/chat/completions';
const parse = (frames: string[]) => frames.slice(0, -1).map((frame) => JSON.parse(frame) as unknown);
const until = async (done: () => boolean) => {
  for (let tries = 0; tries < 200 && !done(); tries++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  expect(done()).toBe(true);
};

describe('chat completions', () => {
  test('buffered: every required member, null ones present', async () => {
    const { post } = await serve();
    const response = await post(chat, { ...hi, model: 'scripted' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{24}$/);
    const body = chatCompletion.parse(await response.json());
    expect(body.id).toMatch(/^chatcmpl-/);
    expect(body.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello, world!', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ]);
    expect(body.usage).toMatchObject({ completion_tokens: 4, total_tokens: body.usage.prompt_tokens + 4 });
  });

  test('streamed: role first, finish last, the same text as buffered, then [DONE]', async () => {
    const { post } = await serve({ answer: () => ['a', '', 'ü', ' \n', '"\\', '🦊'] });
    const buffered = chatCompletion.parse(await (await post(chat, hi)).json());
    const response = await post(chat, { ...hi, stream: true });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const frames = await readEvents(response);
    expect(frames.at(-1)).toBe('[DONE]');
    const chunks = parse(frames).map((frame) => chatChunk.strict().parse(frame));
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant');
    expect(chunks.slice(1).every((chunk) => chunk.choices[0]?.delta.role === undefined)).toBe(true);
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(chunks.slice(0, -1).every((chunk) => chunk.choices[0]?.finish_reason === null)).toBe(true);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
      buffered.choices[0]?.message.content,
    );
    expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
  });

  test('include_usage: usage null on every chunk, then one chunk with usage and no choices', async () => {
    const { post } = await serve();
    const frames = await readEvents(
      await post(chat, { ...hi, stream: true, stream_options: { include_usage: true } }),
    );
    const chunks = parse(frames).map((frame) => chatChunk.parse(frame));
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null && chunk.choices.length === 1)).toBe(
      true,
    );
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
  });

  test('the sampling members, the stops and the limit reach the engine', async () => {
    const { post, engine } = await serve({ contextLength: 200 });
    await post(chat, {
      ...hi,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.05,
      repeat_penalty: 1.1,
      presence_penalty: -1,
      frequency_penalty: 2,
      logit_bias: { '5': -100 },
      seed: 2 ** 40 + 5,
      stop: ['x', 'y'],
      max_tokens: 3,
      user: 'ignored',
      whatever: { deep: true },
    });
    expect(engine.requests[0]).toMatchObject({
      maxTokens: 3,
      stop: ['x', 'y'],
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        minP: 0.05,
        repetitionPenalty: 1.1,
        presencePenalty: -1,
        frequencyPenalty: 2,
        logitBias: new Map([[5, -100]]),
        seed: 5,
      },
    });
    await post(chat, { ...hi, max_tokens: null });
    expect(engine.requests[1]?.maxTokens).toBe(200 - (engine.requests[1]?.prompt.length ?? 0));
    await post(chat, { ...hi, max_tokens: 9, max_completion_tokens: 2 });
    expect(engine.requests[2]?.maxTokens).toBe(2);
    expect(engine.requests[1]?.sampling.seed).not.toBe(engine.requests[2]?.sampling.seed);
  });

  test('a model that is not resident is 404 model_not_found', async () => {
    const { post } = await serve();
    const response = await post(chat, { ...hi, model: 'gpt-9' });
    expect(response.status).toBe(404);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'model_not_found',
      param: 'model',
    });
  });
});

describe('legacy completions', () => {
  test('a choice a prompt, texts or token ids, 16 tokens by default', async () => {
    const { post, engine } = await serve();
    for (const [prompt, count] of [
      ['a', 1],
      [['a', 'b'], 2],
      [[97, 98], 1],
      [[[97], [98], [99]], 3],
    ] as const) {
      const response = await post('/v1/completions', { prompt, echo: true });
      const body = completion.parse(await response.json());
      expect(body.choices.map(({ index }) => index)).toEqual(
        Array.from({ length: count }, (_, index) => index),
      );
      expect(body.choices.at(-1)?.text).toMatch(/^(a|b|ab|c)Hello, world!$/);
      expect(body.usage.completion_tokens).toBe(4 * count);
    }
    expect(engine.requests.every(({ maxTokens }) => maxTokens === 16)).toBe(true);
  });

  test('streamed equals buffered, choice by choice', async () => {
    const { post } = await serve({ answer: ({ prompt }) => [...prompt].map(String) });
    const request = { prompt: ['ab', 'cde'], echo: true };
    const buffered = completion.parse(await (await post('/v1/completions', request)).json());
    const frames = await readEvents(await post('/v1/completions', { ...request, stream: true }));
    const chunks = parse(frames).map((frame) => completionChunk.parse(frame));
    const texts = [0, 1].map((index) =>
      chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.text)
        .join(''),
    );
    expect(texts).toEqual(buffered.choices.map(({ text }) => text));
    expect(
      chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.finish_reason === 'stop').length,
    ).toBe(2);
  });

  test('max_tokens 0 echoes and asks nothing of the engine', async () => {
    const { post, engine } = await serve();
    const body = completion.parse(
      await (await post('/v1/completions', { prompt: 'abc', echo: true, max_tokens: 0 })).json(),
    );
    expect(body.choices[0]).toMatchObject({ text: 'abc', finish_reason: 'length' });
    expect(engine.requests).toEqual([]);
  });

  test('a token id outside the vocabulary and an empty prompt are refused', async () => {
    const { post } = await serve();
    for (const [prompt, param] of [
      [[1, 999], 'prompt'],
      [[[1], [999]], 'prompt.1'],
      ['', 'prompt'],
      [[], 'prompt'],
    ]) {
      const response = await post('/v1/completions', { prompt });
      expect(response.status).toBe(400);
      expect(openaiError.parse(await response.json()).error.param).toBe(param);
    }
  });
});

describe('bad input', () => {
  test('every violation of a body at once, with its path', async () => {
    const { post } = await serve();
    const response = await post(chat, {
      messages: [
        { role: 'user', content: [{ type: 'image_url' }] },
        { role: 'robot', content: '' },
        3,
        { role: 'user' },
      ],
      temperature: 2.1,
      top_p: 'all',
      top_k: -2,
      logit_bias: { x: 1, 3: 101 },
      stop: ['', 7],
      seed: 1.5,
      stream: 'yes',
      max_tokens: 0,
      n: 2,
      tools: [{}],
      response_format: { type: 'json_object' },
    });
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_value' });
    expect(new Set(error.violations?.map(({ path }) => path))).toEqual(
      new Set([
        'messages.0.content.0.type',
        'messages.1.role',
        'messages.2',
        'messages.3.content',
        'temperature',
        'top_p',
        'top_k',
        'logit_bias.x',
        'logit_bias.3',
        'stop.0',
        'stop.1',
        'seed',
        'stream',
        'max_tokens',
        'n',
        'tools',
        'response_format',
      ]),
    );
    expect(error.message).toContain("parts of type 'image_url' cannot be read");
  });

  test.each([
    [{ n: 2 }, 'n'],
    [{ logprobs: true }, 'logprobs'],
    [{ tools: [{ type: 'function' }] }, 'tools'],
    [{ response_format: { type: 'json_schema' } }, 'response_format'],
    [{ audio: {} }, 'audio'],
  ])('%j is refused as not supported rather than ignored', async (member, param) => {
    const { post, engine } = await serve();
    const response = await post(chat, { ...hi, ...member });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'unsupported_parameter',
      param,
    });
    expect(engine.requests).toEqual([]);
  });

  test('their idle values pass', async () => {
    const { post } = await serve();
    const idle = {
      n: 1,
      logprobs: false,
      tools: [],
      tool_choice: 'auto',
      response_format: { type: 'text' },
      modalities: ['text'],
    };
    expect((await post(chat, { ...hi, ...idle })).status).toBe(200);
  });

  test.each([
    ['{"messages":', 400, 'invalid_json'],
    ['', 400, 'invalid_json'],
    ['null', 400, 'invalid_value'],
    ['[]', 400, 'invalid_value'],
    ['{}', 400, 'invalid_value'],
    ['{"messages":[]}', 400, 'invalid_value'],
    ['{"messages":[{"role":"tool","content":"x"}]}', 400, 'chat_template_error'],
    [`{"messages":${'['.repeat(100_000)}`, 400, 'invalid_json'],
    [`{"x":${'['.repeat(50_000)}${']'.repeat(50_000)},"messages":[]}`, 400, 'invalid_value'],
  ])('body %.40s', async (body, status, code) => {
    const { post, faults } = await serve();
    const response = await post(chat, body);
    expect(response.status).toBe(status);
    expect(openaiError.parse(await response.json()).error.code).toBe(code);
    expect(faults).toEqual([]);
  });

  test('a body that is not UTF-8 is refused', async () => {
    const { post } = await serve();
    const body = new Uint8Array([0x22, 0xff, 0x22]);
    const response = await post(chat, '', { body });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'invalid_json',
      message: expect.stringContaining('UTF-8'),
    });
  });

  test('a wrong or absent content type is 415, so a foreign page cannot post', async () => {
    const { post } = await serve();
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
    ];
    for (const type of types) {
      const response = await post(chat, hi, { headers: { 'content-type': type, origin: 'http://evil.com' } });
      expect(response.status).toBe(415);
    }
    const untyped = await post(chat, hi, { headers: {}, body: new Blob([JSON.stringify(hi)]) });
    expect(untyped.status).toBe(415);
    expect(
      (await post(chat, hi, { headers: { 'content-type': 'Application/JSON;charset=utf-8' } })).status,
    ).toBe(200);
  });

  test('no answer carries a CORS allowance; a preflight is 405', async () => {
    const { get, post } = await serve();
    const preflight = await get(chat, {
      method: 'OPTIONS',
      headers: { origin: 'http://evil.com', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(405);
    for (const { headers } of [
      preflight,
      await post(chat, hi, { headers: { 'content-type': 'application/json', origin: 'http://evil.com' } }),
    ]) {
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });

  test('a body over the limit is 413, told by its length or counted', async () => {
    const { post, get } = await serve();
    const big = 'x'.repeat(33 * 1024 * 1024);
    expect((await post(chat, big)).status).toBe(413);
    const chunks = new ReadableStream({
      start(controller) {
        for (let chunk = 0; chunk < 33; chunk++) controller.enqueue(new Uint8Array(1024 * 1024).fill(32));
        controller.close();
      },
    });
    const counted = await post(chat, '', { body: chunks, duplex: 'half' } as RequestInit);
    expect(counted.status).toBe(413);
    expect((await get('/health')).status).toBe(200);
  });

  test('a 10 MB prompt is refused soon, naming both numbers, while others are served', async () => {
    const { post, get } = await serve({ contextLength: 1024 });
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'word '.repeat(2_000_000) }] });
    const began = performance.now();
    const refused = post(chat, body);
    let slowest = 0;
    let waiting = true;
    void refused.finally(() => {
      waiting = false;
    });
    while (waiting) {
      const asked = performance.now();
      await (await get('/health')).text();
      slowest = Math.max(slowest, performance.now() - asked);
    }
    const response = await refused;
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error.code).toBe('context_length_exceeded');
    expect(error.message).toMatch(/1024 tokens.*about \d{6,}/);
    expect(performance.now() - began).toBeLessThan(3000);
    expect(slowest).toBeLessThan(1000);
  });

  test('10 MB of wrong elements are refused soon, naming the first, in bounded memory', async () => {
    const { post, faults } = await serve();
    const many = (element: string, bytes = 10_000_000) =>
      Array(Math.floor(bytes / (element.length + 1)))
        .fill(element)
        .join(',');
    const bodies = [
      [chat, `{"messages":[${many('1')}]}`, 'messages.0', 'expected a message'],
      [chat, `{"messages":[{"role":"user","content":[${many('1')}]}]}`, 'messages.0.content.0', 'a part'],
      ['/v1/completions', `{"prompt":[1,${many('1.5')}]}`, 'prompt.1', 'expected a token id'],
      ['/v1/completions', `{"prompt":[${many('[1]')}]}`, 'prompt', 'at most 128 prompts'],
    ] as const;
    for (const [path, body, param, message] of bodies) {
      const began = performance.now();
      const response = await post(path, body);
      expect(response.status).toBe(400);
      const { error } = openaiError.parse(await response.json());
      expect(error).toMatchObject({ code: 'invalid_value', param });
      expect(error.message).toContain(message);
      expect(error.violations?.length).toBeLessThanOrEqual(50);
      expect(performance.now() - began).toBeLessThan(4000);
    }
    expect(faults).toEqual([]);
  });

  test.each([
    ['/v1/completions', { prompt: [] }, 'prompt: must not be empty.'],
    ['/v1/completions', { prompt: ['a', 1] }, 'prompt.1: expected a text.'],
    ['/v1/completions', { prompt: [...Array(150).keys(), -1] }, 'prompt.150: expected a token id.'],
    ['/v1/completions', { prompt: [[1], [2, -1]] }, 'prompt.1.1: expected a token id.'],
    ['/v1/completions', { prompt: Array(129).fill('a') }, 'prompt: at most 128 prompts.'],
    ['/v1/completions', { prompt: 7 }, /^prompt: expected a text, an array of texts, /],
    [chat, { ...hi, stop: '' }, 'stop: a stop text must not be empty.'],
    [chat, { ...hi, stop: Array(17).fill('a') }, 'stop: at most 16 stop texts.'],
    [chat, { ...hi, stop: 7 }, 'stop: expected a text or up to 16 texts.'],
    [chat, { ...hi, logit_bias: [1] }, /^logit_bias: expected an object of token ids to numbers/],
    [
      chat,
      {
        messages: [
          ...hi.messages,
          { role: 'assistant', tool_calls: [{ id: 'a', type: 'x', function: 3 }, 4] },
        ],
      },
      "messages.1.tool_calls.0.type: expected 'function'; messages.1.tool_calls.0.function: expected {name, arguments}; messages.1.tool_calls.1: expected a tool call such as {id, type, function}.",
    ],
  ])('%s refuses wrong form %# with the words that help', async (path, body, message) => {
    const { post } = await serve();
    const response = await post(path, body);
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error.message).toEqual(typeof message === 'string' ? message : expect.stringMatching(message));
  });

  test('a body in an encoding is 415, rather than taken for broken JSON', async () => {
    const { post } = await serve();
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    const response = await post(chat, hi, { headers });
    expect(response.status).toBe(415);
    expect(openaiError.parse(await response.json()).error.code).toBe('unsupported_encoding');
  });

  test('prompt and answer that do not fit together are refused, naming both numbers', async () => {
    const { post } = await serve({ contextLength: 100 });
    const response = await post(chat, { ...hi, max_tokens: 100 });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(/100 tokens.*121/),
    });
  });
});

describe('the engine refuses or fails', () => {
  test('a full queue is 429 with Retry-After, streamed or not', async () => {
    const { post, engine } = await serve({ capacity: 1, delayMs: 20 });
    const first = post(chat, hi);
    await until(() => engine.running === 1);
    for (const stream of [false, true]) {
      const response = await post(chat, { ...hi, stream });
      expect(response.status).toBe(429);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(openaiError.parse(await response.json()).error).toMatchObject({
        code: 'queue_full',
        type: 'rate_limit_error',
      });
    }
    expect((await first).status).toBe(200);
  });

  test('a lost device is 503 before the first token, an error frame after it', async () => {
    const error = new EngineError('device_lost', 'the GPU was lost; the model is being loaded again');
    const early = await serve({ fail: { after: 0, error } });
    for (const stream of [false, true]) {
      const response = await early.post(chat, { ...hi, stream });
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    const late = await serve({ fail: { after: 2, error } });
    expect((await late.post(chat, hi)).status).toBe(503);
    const frames = await readEvents(await late.post(chat, { ...hi, stream: true }));
    expect(frames).not.toContain('[DONE]');
    expect(openaiError.parse(JSON.parse(frames.at(-1) ?? '')).error).toMatchObject({
      code: 'device_lost',
      type: 'server_error',
    });
  });

  test('a fault of ours is a 500 that tells no secrets and names the request', async () => {
    const { post, faults } = await serve({ fail: { after: 0, error: new TypeError('secret path /root') } });
    const response = await post(chat, hi);
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).not.toContain('secret');
    expect(text).toContain(response.headers.get('x-request-id'));
    expect(faults).toEqual([expect.any(TypeError)]);
  });
});

describe('a client that goes away', () => {
  test.each([false, true])('stops the generation (stream: %s)', async (stream) => {
    const { post, engine, faults } = await serve({ answer: () => Array(1000).fill('x'), delayMs: 5 });
    const leave = new AbortController();
    const request = post(chat, { ...hi, stream }, { signal: leave.signal });
    request.catch(() => undefined);
    await until(() => engine.produced > 3);
    leave.abort();
    await until(() => engine.running === 0);
    expect(engine.produced).toBeLessThan(40);
    expect(engine.aborted).toBe(1);
    expect(faults).toEqual([]);
  });

  test('while it waits behind a hung device holds nothing', async () => {
    const { post, get, faults } = await serve({ hang: true });
    const leave = new AbortController();
    const request = post(chat, { ...hi, stream: true }, { signal: leave.signal });
    setTimeout(() => leave.abort(), 50);
    await expect(request).rejects.toThrow();
    expect((await get('/health')).status).toBe(200);
    expect(faults).toEqual([]);
  });
});

test('a reader that stops reading stops the production of chunks', async () => {
  const piece = 'x'.repeat(100_000);
  const { post, engine } = await serve({ answer: () => Array(3000).fill(piece) });
  const response = await post(chat, { ...hi, stream: true });
  const reader = response.body?.getReader();
  await reader?.read();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const held = engine.produced;
  expect(held).toBeLessThan(300);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(engine.produced).toBeLessThan(held + 30);
  const digest = createHash('sha256');
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
    digest.update(part.value);
  expect(engine.produced).toBe(3000);
});

test('requests in flight and new ones get a 503 when the host stops, also behind a hung device', async () => {
  const { get, post, stopping } = await serve({ hang: true });
  const request = post(chat, hi);
  const { Problem } = await import('../../src/planes/problem.ts');
  setTimeout(() => stopping.abort(new Problem(503, 'shutting_down', 'The host is shutting down.')), 50);
  const response = await request;
  expect(response.status).toBe(503);
  expect(openaiError.parse(await response.json()).error.code).toBe('shutting_down');
  expect((await get('/v1/models')).status).toBe(503);
});
