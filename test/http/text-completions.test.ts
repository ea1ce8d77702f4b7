import { describe, expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { completion, completionChunk } from '../../src/wires/completions/server-schema.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();

const parse = (frames: string[]) => frames.slice(0, -1).map((frame) => JSON.parse(frame) as unknown);

describe('legacy completions', () => {
  test('one choice per prompt, texts or token ids, 16 tokens by default', async () => {
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

  test('max_tokens 0 echoes without calling the engine', async () => {
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

describe('several answers to several prompts', () => {
  test('the k-th answer to the i-th prompt is choice i * n + k; each prompt is counted once', async () => {
    const { post } = await serve({
      answer: ({ prompt, sampling }) => [String.fromCharCode(prompt[0] ?? 0), String(sampling.seed)],
    });
    const request = { prompt: ['ab', 'c'], n: 2, seed: 5 };
    const body = completion.parse(await (await post('/v1/completions', request)).json());
    expect(body.choices.map(({ index, text }) => [index, text])).toEqual([
      [0, 'a5'],
      [1, 'a6'],
      [2, 'c5'],
      [3, 'c6'],
    ]);
    expect(body.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 8, total_tokens: 11 });
    const streamed = { ...request, stream: true, stream_options: { include_usage: true } };
    const chunks = parse(await readEvents(await post('/v1/completions', streamed))).map((frame) =>
      completionChunk.parse(frame),
    );
    const textOf = (index: number) =>
      chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map(({ text }) => text)
        .join('');
    expect([0, 1, 2, 3].map(textOf)).toEqual(['a5', 'a6', 'c5', 'c6']);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: body.usage });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  test('prompts run concurrently', async () => {
    const held = Promise.withResolvers<void>();
    const { post, engine } = await serve({ hold: () => held.promise });
    const answer = post('/v1/completions', { prompt: ['a', 'b', 'c', 'd'] });
    await expect.poll(() => engine.running).toBe(4);
    held.resolve();
    expect((await answer).status).toBe(200);
  });

  test('best_of generates more and returns the most likely, best first, and counts all', async () => {
    const words = ['z', 'b', 'y', 'a'];
    const { post } = await serve({ answer: ({ sampling }) => [words[sampling.seed] ?? ''] });
    const request = { prompt: 'p', n: 2, best_of: 4, seed: 0 };
    const body = completion.parse(await (await post('/v1/completions', request)).json());
    expect(body.choices.map(({ index, text, logprobs }) => [index, text, logprobs])).toEqual([
      [0, 'a', null],
      [1, 'b', null],
    ]);
    expect(body.usage).toMatchObject({ prompt_tokens: 1, completion_tokens: 4 });
  });
});

describe('log probabilities', () => {
  const of = (id: number) => -id / 64;

  test('tokens, their own and the most likely ones, and their offsets in the text', async () => {
    const { post } = await serve({ answer: () => ['c', 'é'] });
    const body = completion.parse(await (await post('/v1/completions', { prompt: 'x', logprobs: 2 })).json());
    const top = { a: of(97), b: of(98) };
    expect(body.choices[0]).toMatchObject({
      text: 'cé',
      logprobs: {
        tokens: ['c', 'bytes:\\xc3', 'bytes:\\xa9'],
        token_logprobs: [of(99), of(0xc3), of(0xa9)],
        top_logprobs: [
          { ...top, c: of(99) },
          { ...top, 'bytes:\\xc3': of(0xc3) },
          { ...top, 'bytes:\\xa9': of(0xa9) },
        ],
        text_offset: [0, 1, 1],
      },
    });
  });

  test('with echo also of the prompt, null for its first token, even without an answer', async () => {
    const { post, engine } = await serve({ bosId: 258, answer: () => ['c'] });
    const of0 = await post('/v1/completions', { prompt: 'xy', logprobs: 0, echo: true, max_tokens: 0 });
    const whole = completion.parse(await of0.json());
    expect(whole.choices[0]).toEqual({
      index: 0,
      text: 'xy',
      logprobs: {
        tokens: ['<|endoftext|>', 'x', 'y'],
        token_logprobs: [null, of(120), of(121)],
        top_logprobs: [null, { x: of(120) }, { y: of(121) }],
        text_offset: [0, 0, 1],
      },
      finish_reason: 'length',
    });
    expect(engine.requests[0]).toMatchObject({ maxTokens: 0, logprobs: 0, promptLogprobs: true });
    const ids = await post('/v1/completions', { prompt: [258, 120], logprobs: 0, echo: true });
    expect(completion.parse(await ids.json()).choices[0]).toMatchObject({
      text: '<|endoftext|>xc',
      logprobs: { tokens: ['<|endoftext|>', 'x', 'c'], text_offset: [0, 13, 14] },
    });
  });

  test('streamed equals buffered', async () => {
    const { post } = await serve({ answer: () => ['c', '', 'de'] });
    const request = { prompt: ['xy', 'z'], n: 2, logprobs: 1, echo: true };
    const buffered = completion.parse(await (await post('/v1/completions', request)).json());
    const frames = await readEvents(await post('/v1/completions', { ...request, stream: true }));
    const choices = parse(frames).flatMap((frame) => completionChunk.parse(frame).choices);
    for (const { index, text, logprobs } of buffered.choices) {
      const own = choices.filter((choice) => choice.index === index);
      expect(own.map((choice) => choice.text).join('')).toBe(text);
      for (const member of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const)
        expect(own.flatMap<unknown>((choice) => choice.logprobs?.[member] ?? [])).toEqual(logprobs?.[member]);
    }
  });
});

describe('a suffix', () => {
  test('builds a fill-in-the-middle prompt', async () => {
    const { post, engine } = await serve();
    Object.assign(engine.tokenizer, { fim: { prefix: 256, suffix: 257, middle: 258 } });
    const request = { prompt: 'ab', suffix: 'yz', echo: true };
    const body = completion.parse(await (await post('/v1/completions', request)).json());
    expect(body.choices[0]?.text).toBe('abHello, world!');
    expect(engine.requests[0]?.prompt).toEqual([256, 97, 98, 257, 121, 122, 258]);
  });

  test('has log probabilities of the answer only: those of the text around the gap belong to another text', async () => {
    const { post, engine } = await serve();
    Object.assign(engine.tokenizer, { fim: { prefix: 256, suffix: 257, middle: 258 } });
    const request = { prompt: 'ab', suffix: 'yz', logprobs: 0 };
    const body = completion.parse(await (await post('/v1/completions', request)).json());
    expect(body.choices[0]?.logprobs?.tokens.join('')).toBe('Hello, world!');
    const response = await post('/v1/completions', { ...request, echo: true });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error.param).toBe('logprobs');
  });

  test('is a 501 on a model without support', async () => {
    const { post } = await serve();
    const response = await post('/v1/completions', { prompt: 'a', suffix: 'b' });
    expect(response.status).toBe(501);
    expect(openaiError.parse(await response.json()).error.code).toBe('not_supported');
    expect((await post('/v1/completions', { prompt: 'a', suffix: '' })).status).toBe(200);
  });
});
