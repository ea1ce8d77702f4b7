/** Page allocation, shared prefixes and preemption on the real adapter with the embedded model. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { type GenerateRequest, greedySampling, type Sampling } from '../../src/engine/types.ts';
import { testPlatform } from '../support/test-platform.ts';
import { random } from '../support/kernel-harness.ts';
import { fixtureModel } from '../support/shared.ts';

const model = fixtureModel;
const pageTokens = 32;
const warm: Sampling = { ...greedySampling, temperature: 0.9, topP: 0.95, seed: 3 };
const stories = 'Tell me a story about a fox named Mia who lives in a small house by the river. '.repeat(9);

let engine: ResidentEngine;
beforeAll(async () => {
  engine = await loadEngine(testPlatform(), { model, parallel: 8, queue: 40 });
});
afterAll(() => engine.close());

const ids = (text: string): number[] => engine.tokenizer.encode(text);
const request = (prompt: number[], changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  prompt,
  maxTokens: 24,
  sampling: greedySampling,
  stop: [],
  ignoreEnd: true,
  ...changes,
});

async function answer(to: GenerateRequest, by: ResidentEngine = engine) {
  const got = { ids: [] as number[], cached: -1 };
  for await (const event of by.generate(to)) {
    if (event.type === 'text') got.ids.push(...event.ids);
    else if (event.type === 'end') got.cached = event.usage.cached_tokens;
  }
  return got;
}

/** The output of an engine without a prefix cache. */
async function cold(to: GenerateRequest) {
  engine.forgetPrefixes();
  const got = await answer(to);
  expect(got.cached).toBe(0);
  return got;
}

describe('a repeated prompt', () => {
  it.each([2, 31, 32, 33, 64, 150])(
    'of %i tokens computes only its last token, and gives the same text',
    async (length) => {
      for (const sampling of [greedySampling, warm]) {
        const one = request(ids(stories).slice(0, length), { sampling });
        const first = await cold(one);
        expect(await answer(one)).toEqual({ ids: first.ids, cached: length - 1 });
      }
    },
  );

  it('is computed whole, to the same text, where the request ignores the cache', async () => {
    const one = request(ids(stories).slice(0, 100), { sampling: warm });
    const first = await cold(one);
    expect(await answer({ ...one, ignoreCache: true })).toEqual({ ids: first.ids, cached: 0 });
    expect((await answer(one)).cached).toBe(99);
  });

  it('counts reused tokens in the engine’s totals', async () => {
    engine.forgetPrefixes();
    const before = engine.stats();
    const one = request(ids(stories).slice(0, 100), { maxTokens: 2 });
    await answer(one);
    await answer(one);
    const after = engine.stats();
    expect(after.cachedTokens - before.cachedTokens).toBe(99);
    expect(after.promptTokens - before.promptTokens).toBe(200);
    expect(after.pages.cached).toBe(Math.ceil(101 / pageTokens));
  });
});

describe('texts with the same prefix', () => {
  it('a growing chat computes only what is new', async () => {
    engine.forgetPrefixes();
    let prompt = ids('User: tell me a story about Mia.\nAnswer:');
    const turns: { one: GenerateRequest; got: number[] }[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const one = request(prompt, { sampling: { ...warm, seed: turn }, maxTokens: 30 });
      const { ids: got, cached } = await answer(one);
      // All of the last prompt and output except the token sampled last.
      const known = turn === 0 ? 0 : turns[turn - 1]!.one.prompt.length + 29;
      expect(cached).toBe(known);
      turns.push({ one, got });
      prompt = [...prompt, ...got, ...ids(`\nUser: and then, number ${turn}?\nAnswer:`)];
    }
    for (const { one, got } of turns) expect((await cold(one)).ids).toEqual(got);
  });

  it('eight at once share what the first computes, and get the same texts as alone', async () => {
    const beginning = ids(stories).slice(0, 140);
    const requests = Array.from({ length: 8 }, (_, n) =>
      request([...beginning, ...ids(`Number ${n}:`)], { sampling: { ...warm, seed: n } }),
    );
    engine.forgetPrefixes();
    const together = await Promise.all(requests.map((one) => answer(one)));
    expect(together[0]!.cached).toBe(0);
    for (const { cached } of together.slice(1)) expect(cached).toBeGreaterThanOrEqual(128);
    for (const [n, one] of requests.entries()) expect(together[n]!.ids).toEqual((await cold(one)).ids);
  });

  it('a canceled one leaves only what it computed', async () => {
    const prompt = ids(stories).slice(0, 40);
    const whole = await cold(request(prompt, { maxTokens: 100 }));
    for (const cut of [1, 5, 30]) {
      engine.forgetPrefixes();
      const controller = new AbortController();
      const seen: number[] = [];
      const run = async () => {
        for await (const event of engine.generate(
          request(prompt, { maxTokens: 100, signal: controller.signal }),
        )) {
          if (event.type === 'text') seen.push(...event.ids);
          if (seen.length >= cut) controller.abort(new Error('cut'));
        }
      };
      await expect(run()).rejects.toThrow('cut');
      const again = await answer(request([...prompt, ...whole.ids.slice(0, 60)], { maxTokens: 40 }));
      expect(again.ids).toEqual(whole.ids.slice(60));
      expect(again.cached).toBeGreaterThanOrEqual(prompt.length + cut - 1);
      expect(again.cached).toBeLessThan(prompt.length + 60);
    }
  });
});

describe('a cache that is too small', () => {
  it('long outputs are preempted, also with canceled ones among them, and are the same as alone', async () => {
    const { layers, kvHeads, headDim } = engine.runner.graph.shape;
    const pageBytes = layers * 2 * pageTokens * kvHeads * headDim * 2;
    const small = await loadEngine(testPlatform(), {
      model,
      parallel: 6,
      context: 384,
      kvCacheBytes: 12 * pageBytes,
    });
    try {
      expect(small.stats().pages.total).toBe(12);
      const next = random(7);
      const requests = Array.from({ length: 7 }, (_, n) =>
        request(ids(stories).slice(n, n + 10 + Math.floor(next() * 80)), {
          maxTokens: 80 + Math.floor(next() * 80),
          sampling: { ...warm, seed: n, frequencyPenalty: n % 3 === 0 ? 0.3 : 0 },
        }),
      );
      const cutOff = async (one: GenerateRequest) => {
        for await (const event of small.generate(one)) if (event.type === 'text') return;
      };
      const jobs = requests.map((one) => answer(one, small));
      await Promise.all(requests.slice(0, 5).map((one) => cutOff({ ...one, prompt: [...one.prompt, 9] })));
      const answers = await Promise.all(jobs);
      expect(small.stats().preemptions).toBeGreaterThan(0);
      const { free, cached, total } = small.stats().pages;
      expect(free + cached).toBe(total);
      for (const [n, one] of requests.entries())
        expect(answers[n]!.ids, `request ${n}`).toEqual((await cold(one)).ids);
    } finally {
      await small.close();
    }
  });

  it('a context that the byte budget cannot hold is rejected, with both numbers', async () => {
    const loading = loadEngine(testPlatform(), { model, context: 384, kvCacheBytes: 10_000 });
    await expect(loading).rejects.toThrow(/--kv-cache-bytes 10000 .* --context 384/);
  });
});
