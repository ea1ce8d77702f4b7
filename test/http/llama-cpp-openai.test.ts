import { describe, expect, test } from 'vitest';
import { readEvents, scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
type Json = Record<string, unknown>;
const json = async (response: Response) => (await response.json()) as Json;
const chunksOf = async (response: Response) =>
  (await readEvents(response)).filter((line) => line !== '[DONE]').map((line) => JSON.parse(line) as Json);
const messages = [{ role: 'user', content: 'hi' }];
const chat = { path: '/v1/chat/completions', body: { messages } };
const completions = { path: '/v1/completions', body: { prompt: 'hi' } };
const usageOf = ({ usage }: Json) => usage as { prompt_tokens: number };
/** As the scripted engine measures. */
const timingsOf = (promptTokens: number, cached: number, predicted = 4) => ({
  cache_n: cached,
  prompt_n: promptTokens - cached,
  prompt_ms: 1,
  prompt_per_token_ms: 1 / (promptTokens - cached),
  prompt_per_second: (promptTokens - cached) * 1000,
  predicted_n: predicted,
  predicted_ms: 1,
  predicted_per_token_ms: 1 / predicted,
  predicted_per_second: predicted * 1000,
});

describe.each([chat, completions])('$path as llama.cpp serves it', ({ path, body }) => {
  test('a buffered answer has timings; several answers count their prompt once', async () => {
    const { post } = await serve({ cached: 1 });
    const answer = await json(await post(path, body));
    const { prompt_tokens: prompt } = usageOf(answer);
    expect(answer['timings']).toEqual(timingsOf(prompt, 1));
    expect((await json(await post(path, { ...body, n: 2 })))['timings']).toEqual(timingsOf(prompt, 1, 8));
  });

  test.each([true, false])(
    'the last chunk of a stream has its timings, and no other one (usage: %s)',
    async (include_usage) => {
      const { post } = await serve({ cached: 1 });
      const { prompt_tokens: prompt } = usageOf(await json(await post(path, body)));
      const chunks = await chunksOf(
        await post(path, { ...body, stream: true, stream_options: { include_usage } }),
      );
      expect(chunks.at(-1)?.['timings']).toEqual(timingsOf(prompt, 1));
      const timed = chunks.filter((chunk) => 'timings' in chunk);
      expect(timed).toEqual(chunks.slice(include_usage ? -2 : -1));
    },
  );

  test('timings_per_token: every chunk has the timings so far', async () => {
    const { post } = await serve({ cached: 1 });
    const chunks = await chunksOf(await post(path, { ...body, stream: true, timings_per_token: true }));
    const timings = chunks.map((chunk) => chunk['timings'] as { cache_n: number; predicted_n: number });
    expect(new Set(timings.map(({ cache_n }) => cache_n))).toEqual(new Set([1]));
    const predicted = timings.map(({ predicted_n }) => predicted_n);
    expect(predicted).toEqual(predicted.toSorted((a, b) => a - b));
    expect(new Set(predicted)).toEqual(new Set([1, 2, 3, 4]));
  });

  test('return_progress: chunks before the text report prompt progress', async () => {
    const { post } = await serve({ cached: 1 });
    const { prompt_tokens: total } = usageOf(await json(await post(path, body)));
    const chunks = await chunksOf(await post(path, { ...body, stream: true, return_progress: true }));
    expect(chunks.slice(0, 2).map((chunk) => chunk['prompt_progress'])).toEqual([
      { total, cache: 1, processed: 1, time_ms: 0 },
      { total, cache: 1, processed: total, time_ms: 1 },
    ]);
    expect(chunks.slice(2).some((chunk) => 'prompt_progress' in chunk)).toBe(false);
    expect((chunks[0]?.['choices'] as Json[] | undefined)?.[0]).toEqual(
      path === chat.path
        ? { index: 0, delta: { role: 'assistant', content: null }, logprobs: null, finish_reason: null }
        : { index: 0, text: '', logprobs: null, finish_reason: null },
    );
  });

  test('without a stream progress changes nothing', async () => {
    const { post, engine } = await serve();
    const answer = await json(await post(path, { ...body, timings_per_token: true, return_progress: true }));
    expect(answer).not.toHaveProperty('prompt_progress');
    expect(engine.requests[0]?.progress).toBeUndefined();
  });

  test('values that are not booleans are refused by name', async () => {
    const { post } = await serve();
    for (const member of ['timings_per_token', 'return_progress']) {
      const response = await post(path, { ...body, [member]: 'yes' });
      expect(response.status).toBe(400);
      expect(await json(response)).toMatchObject({ error: { param: member } });
    }
  });

  test('a JSON schema needs no name', async () => {
    const { post, grammars } = await serve();
    const schema = { type: 'object' };
    for (const name of [{}, { name: null }, { name: 'a-b_1' }]) {
      const response_format = { type: 'json_schema', json_schema: { schema, ...name } };
      expect((await post(path, { ...body, response_format })).status).toBe(200);
    }
    const constraint = { kind: 'json_schema', schema };
    expect(grammars.compiled).toEqual([constraint, constraint, constraint]);
  });
});

describe('post_sampling_probs', () => {
  test('/v1/chat/completions reports probabilities instead of log probabilities, buffered and streamed', async () => {
    const { post, engine } = await serve({ answer: () => ['a', 'b'] });
    const body = { messages, logprobs: true, top_logprobs: 3, post_sampling_probs: true };
    const { choices } = (await json(await post(chat.path, body))) as { choices: Json[] };
    const a = { token: 'a', bytes: [97], prob: 0.5 };
    const b = { token: 'b', bytes: [98], prob: 0.5 };
    const content = [
      { ...a, top_probs: [a] },
      { ...b, top_probs: [a] },
    ];
    expect(choices[0]?.['logprobs']).toEqual({ content, refusal: null });
    const chunks = await chunksOf(await post(chat.path, { ...body, stream: true }));
    const streamed = chunks
      .flatMap((chunk) => chunk['choices'] as { logprobs: { content: unknown[] } | null }[])
      .flatMap(({ logprobs }) => logprobs?.content ?? []);
    expect(streamed).toEqual(content);
    expect(engine.requests.map((request) => request.postSampling)).toEqual([true, true]);
  });

  test('/completion likewise, and its settings say so', async () => {
    const { post } = await serve({ answer: () => ['a'] });
    const answer = await json(
      await post('/completion', { prompt: 'hi', n_probs: 2, post_sampling_probs: true }),
    );
    const a = { id: 97, token: 'a', bytes: [97], prob: 0.5 };
    expect(answer['completion_probabilities']).toEqual([{ ...a, top_probs: [a] }]);
    expect(answer['generation_settings']).toMatchObject({ post_sampling_probs: true });
  });

  test('/v1/completions writes their logarithms in its own format, but not for an echoed prompt', async () => {
    const { post } = await serve({ answer: () => ['a'] });
    const body = { prompt: 'hi', logprobs: 2, post_sampling_probs: true };
    const { choices } = (await json(await post(completions.path, body))) as { choices: Json[] };
    expect(choices[0]?.['logprobs']).toMatchObject({
      tokens: ['a'],
      token_logprobs: [-Math.LN2],
      top_logprobs: [{ a: -Math.LN2 }],
    });
    const refused = await post(completions.path, { ...body, echo: true });
    expect(refused.status).toBe(400);
    expect(await json(refused)).toMatchObject({ error: { param: 'post_sampling_probs' } });
  });
});

describe('paths without /v1, as llama.cpp has them', () => {
  test('/chat/completions and /responses behave as with the prefix', async () => {
    const { post } = await serve();
    for (const [path, body] of [
      ['/chat/completions', { messages }],
      ['/responses', { input: 'hi' }],
    ] as const) {
      const [own, other] = [await json(await post(path, body)), await json(await post(`/v1${path}`, body))];
      expect(own['object']).toBe(other['object']);
      expect(Object.keys(own)).toEqual(Object.keys(other));
      const stream = await post(path, { ...body, stream: true });
      expect(stream.headers.get('content-type')).toContain('text/event-stream');
      const refusals = [await post(path, {}), await post(`/v1${path}`, {})];
      expect(refusals.map(({ status }) => status)).toEqual([400, 400]);
      const [refused, expected] = await Promise.all(refusals.map(json));
      expect(refused).toEqual(expected);
    }
  });

  test("/completions, /embeddings and /models are routes of llama.cpp's own wire", async () => {
    const { post, get } = await serve();
    expect(await json(await post('/completions', { prompt: 'hi' }))).toMatchObject({ stop: true });
    expect(await json(await get('/models'))).toMatchObject({ object: 'list' });
    const embedder = await serve({ embeds: 4 });
    expect(await (await embedder.post('/embeddings', { content: 'hi' })).json()).toMatchObject([
      { index: 0 },
    ]);
  });
});
