/** Guarantees of the engine that need a vocabulary of bytes or a cache that is too small. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type GenerateRequest,
  greedySampling,
  type ResidentEngine,
  type Sampling,
} from '../../src/engine/index.ts';
import { withDeviceMemory } from '../support/limited-device.ts';
import { endToken, loadFromMemory, memoryPlatform, tinyModel } from '../support/tiny-model.ts';
import { loadEngine } from '../../src/engine/index.ts';

const bytes = tinyModel({ architecture: 'llama', type: 'Q8_0' });
let engine: ResidentEngine;
beforeAll(async () => {
  engine = await loadFromMemory(bytes, { context: 256, parallel: 4, queue: 40 });
});
afterAll(() => engine.close());

/** Writes the same bytes over and over: the most likely token is sampled, and is then less likely than all others. */
function writing(text: string): Sampling {
  const wanted = [...new TextEncoder().encode(text)];
  expect(new Set(wanted).size, 'bytes that come twice cannot be told apart').toBe(wanted.length);
  // Bias steps so large that the model's own logits do not matter.
  const logitBias = new Map(wanted.map((byte, index) => [byte, 1e6 - 1000 * index]));
  return { ...greedySampling, logitBias, frequencyPenalty: 1000 * wanted.length };
}

const request = (changes: Partial<GenerateRequest>): GenerateRequest => ({
  prompt: [65, 66],
  maxTokens: 24,
  sampling: greedySampling,
  stop: [],
  ...changes,
});

async function pieces(to: GenerateRequest, by: ResidentEngine = engine) {
  const texts: string[] = [];
  const ids: number[] = [];
  let finishReason: string | undefined;
  for await (const event of by.generate(to)) {
    if (event.type === 'end') finishReason = event.finishReason;
    else if (event.type === 'text') {
      texts.push(event.text);
      ids.push(...event.ids);
    }
  }
  return { texts, ids, text: texts.join(''), finishReason };
}

describe('text of bytes', () => {
  it.each(['é', '€', '🦊', 'a🦊b€'])('no event ever ends inside a character: %s', async (text) => {
    const length = new TextEncoder().encode(text).length;
    const got = await pieces(request({ sampling: writing(text), maxTokens: 3 * length }));
    expect(got.text).toBe(text.repeat(3));
    for (const piece of got.texts) expect(piece.isWellFormed() && !piece.includes('\u{fffd}')).toBe(true);
    expect(got.ids).toHaveLength(3 * length);
  });

  it('a character cut off by maxTokens becomes one replacement character, at the very end', async () => {
    const got = await pieces(request({ sampling: writing('🦊'), maxTokens: 6 }));
    expect(got).toMatchObject({ text: '🦊\u{fffd}', finishReason: 'length' });
    expect(got.texts[0]).toBe('🦊');
  });

  it("a stop string may span the boundary of two characters' tokens", async () => {
    const got = await pieces(request({ sampling: writing('x€🦊'), maxTokens: 40, stop: ['🦊x€'] }));
    expect(got).toMatchObject({ text: 'x€', finishReason: 'stop' });
  });

  it('text held back for a stop string that never comes is emitted at the end, also at the end token', async () => {
    const cut = await pieces(request({ sampling: writing('abcd'), maxTokens: 3, stop: ['abcdx'] }));
    expect(cut).toMatchObject({ text: 'abc', finishReason: 'length' });
    const { logitBias, ...rest } = writing('abc');
    const ends = { ...rest, logitBias: new Map([...logitBias, [endToken, 1e6 - 2500]]) };
    const ended = await pieces(request({ sampling: ends, stop: ['abcdx'] }));
    expect(ended).toMatchObject({ text: 'abc', finishReason: 'stop', ids: [97, 98, 99, endToken] });
  });
});

describe('queued requests', () => {
  it('are served in order, and one that is canceled in the queue never runs', async () => {
    const long = request({ maxTokens: 60, ignoreEnd: true });
    const expected = await pieces(long);
    const controller = new AbortController();
    const running = Array.from({ length: 6 }, () => pieces(long));
    const cancelled = pieces({ ...long, signal: controller.signal });
    const last = pieces(long);
    await expect.poll(() => engine.stats(), { interval: 1 }).toMatchObject({ running: 4, queued: 4 });
    controller.abort(new Error('no longer wanted'));
    expect(engine.stats()).toMatchObject({ running: 4, queued: 3 });
    await expect(cancelled).rejects.toThrow('no longer wanted');
    for (const got of await Promise.all([...running, last])) expect(got).toEqual(expected);
    expect(engine.stats()).toMatchObject({ running: 0, queued: 0 });
  });

  it('a signal that is already aborted throws at once', () => {
    const reason = new Error('too late');
    const signal = AbortSignal.abort(reason);
    expect(() => engine.generate(request({ signal }))).toThrow(reason);
    expect(engine.stats()).toMatchObject({ running: 0, queued: 0 });
  });

  it('are preempted when the cache is too small for all, and each output is the same as alone', async () => {
    const platform = memoryPlatform(bytes);
    // Room for three full sequences with eight slots requested.
    const whole = await loadEngine(platform, { model: 'memory.gguf', context: 256, parallel: 8 });
    const { memory, weightBytes } = whole.runner;
    const cacheBytes = memory.capacity.pages * 2 * 2 * 2 * 32 * 2 * 64; // layers, k and v, f16, tokens, heads, head
    const needed = weightBytes + memory.pool.bytes - cacheBytes;
    const limit = needed + (cacheBytes * 3) / 8 + 1000;
    // Only the memory of a software adapter is known; a GPU reports an error when it is full.
    const { software } = whole.runner.gpu.caps;
    await whole.close();
    const small = await loadEngine(
      software ? { ...platform, memoryBytes: () => limit } : withDeviceMemory(platform, limit),
      { model: 'memory.gguf', context: 256, parallel: 8 },
    );
    const { pages } = small.runner.memory.capacity;
    expect(pages).toBeGreaterThanOrEqual(8);
    expect(pages).toBeLessThan(8 * 8);
    const full = Array.from({ length: 8 }, (_, n) =>
      request({
        maxTokens: 254,
        ignoreEnd: true,
        prompt: [n + 65, 2],
        sampling: { ...greedySampling, seed: n },
      }),
    );
    const answers = await Promise.all(full.map((one) => pieces(one, small)));
    for (const [index, one] of full.entries()) expect(answers[index]).toEqual(await pieces(one));
    expect(small.stats().preemptions).toBeGreaterThan(0);
    await small.close();
  });
});
