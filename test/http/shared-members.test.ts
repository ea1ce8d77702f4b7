import { describe, expect, test } from 'vitest';
import { scriptedServers } from '../support/serve.ts';

const serveScripted = scriptedServers();
const serve = () => serveScripted({ fim: true });
const messages = [{ role: 'user', content: 'hi' }];

/** A request of each wire that generates, by its path. */
const wires: readonly (readonly [path: string, body: Readonly<Record<string, unknown>>])[] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 5 }],
  ['/api/chat', { model: 'scripted', messages }],
  ['/api/generate', { model: 'scripted', prompt: 'hi' }],
  ['/completion', { prompt: 'hi' }],
  ['/infill', { input_prefix: 'a', input_suffix: 'b' }],
];
const isOllama = (path: string) => path.startsWith('/api/');

describe.each(wires)('POST %s', (path, body) => {
  test.each([false, true])('names the seed that was used (stream: %s)', async (stream) => {
    const { post, engine } = await serve();
    const response = await post(path, { ...body, stream });
    expect(response.status).toBe(200);
    await response.text();
    const { seed } = engine.requests[0]?.sampling ?? {};
    expect(response.headers.get('x-lathe-seed')).toBe(String(seed));
  });

  test('names a seed that the request gave', async () => {
    // Anthropic's wire has no seed.
    if (path === '/v1/messages') return;
    const { post } = await serve();
    const seed = isOllama(path) ? { options: { seed: 5 } } : { seed: 5 };
    const response = await post(path, { ...body, ...seed, stream: false });
    expect(response.headers.get('x-lathe-seed')).toBe('5');
  });
});

describe.each(wires.filter(([path]) => !isOllama(path) && path !== '/v1/messages'))(
  'POST %s',
  (path, body) => {
    test('takes logit_bias as an object, as pairs with ids and as pairs with texts', async () => {
      const { post, engine } = await serve();
      const biasFor = async (logit_bias: unknown) => {
        expect((await post(path, { ...body, logit_bias })).status).toBe(200);
        return Object.fromEntries(engine.requests.at(-1)?.sampling.logitBias ?? []);
      };
      expect(await biasFor({ 97: 2, 98: false })).toEqual({ 97: 2, 98: -100 });
      expect(
        await biasFor([
          [97, 2],
          [98, false],
        ]),
      ).toEqual({ 97: 2, 98: -100 });
      expect(await biasFor([['ab', 2]])).toEqual({ 97: 2, 98: 2 });
      expect(await biasFor(null)).toEqual({});
      const pathsOf = async (logit_bias: unknown) => {
        const response = await post(path, { ...body, logit_bias });
        expect(response.status).toBe(400);
        return [...(await response.text()).matchAll(/logit_bias\.(\d+): no such token: (\d+)/g)].map(
          (found) => found.slice(1),
        );
      };
      expect(
        await pathsOf([
          [97, 1],
          [9999, 1],
          ['ab', 1],
          [8888, 1],
        ]),
      ).toEqual([
        ['1', '9999'],
        ['3', '8888'],
      ]);
      expect(await pathsOf({ 97: 1, 9999: 1 })).toEqual([['9999', '9999']]);
    });
  },
);

describe.each(wires.filter(([path]) => !isOllama(path) && !/messages|responses/.test(path)))(
  'POST %s',
  (path, body) => {
    test('evaluates the whole prompt with cache_prompt: false', async () => {
      const { post, engine } = await serve();
      for (const cache_prompt of [false, true, null])
        expect((await post(path, { ...body, cache_prompt, id_slot: 0 })).status).toBe(200);
      expect(engine.requests.map(({ ignoreCache }) => ignoreCache)).toEqual([true, undefined, undefined]);
    });
  },
);

test.each(wires.slice(0, 2))('POST %s has the same members of usage and timings', async (path, body) => {
  const { post } = await serve();
  const answer = (await (await post(path, body)).json()) as Record<'usage' | 'timings', object>;
  expect(answer.usage).toEqual({
    prompt_tokens: expect.any(Number),
    completion_tokens: 4,
    total_tokens: expect.any(Number),
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  });
  expect(Object.keys(answer.timings)).toEqual([
    'cache_n',
    'prompt_n',
    'prompt_ms',
    'prompt_per_token_ms',
    'prompt_per_second',
    'predicted_n',
    'predicted_ms',
    'predicted_per_token_ms',
    'predicted_per_second',
  ]);
});
