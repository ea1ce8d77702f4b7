import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EngineError, greedySampling, loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { inEachPrecision, roundsToF16 } from '../support/precision.ts';
import { referenceEmbedding } from '../support/reference-encoder.ts';
import { everyNth } from '../support/tier.ts';
import { type TinyEncoder, tinyEncoder } from '../support/tiny-encoder.ts';
import { loadFromMemory, memoryPlatform, tinyModel } from '../support/tiny-model.ts';

const someIds = (length: number, seed = 0) =>
  Array.from({ length }, (_, i) => (i * 37 + seed * 101 + 5) % 250);

function worst(got: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(got.length).toBe(expected.length);
  return Array.from(got, (value, i) => Math.abs(value - (expected[i] as number))).reduce((a, b) =>
    Math.max(a, b),
  );
}

const cosine = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Array.from(a, (value, i) => value * (b[i] as number)).reduce((sum, value) => sum + value, 0);

/** The reason a promise is rejected with. */
const refusal = async (work: Promise<unknown>): Promise<EngineError> =>
  await work.then(
    () => {
      throw new Error('nothing was refused');
    },
    (error: unknown) => error as EngineError,
  );

/** `f16` on an H200 (2026-11-27): 0.999998998 and 7e-4, because its tiles hold weights and activations in f16. */
const tolerances = {
  f32: { minCosine: 0.999999, maxAbs: 2e-4 },
  f16: { minCosine: 0.999997, maxAbs: 2e-3 },
};

/** Lengths around a tile, a page and the end of the context. */
const lengths = [1, 2, 7, 8, 9, 31, 33, 63, 64];

describe('an encoder equals the CPU oracle', () => {
  const models: TinyEncoder[] = [
    { architecture: 'bert' },
    { architecture: 'bert', pooling: 2, typed: false, width: 96, heads: 12, feedForward: 100 },
    { architecture: 'bert', pooling: 3, type: 'Q8_0', layers: 1, width: 128, heads: 2, feedForward: 256 },
    { architecture: 'nomic-bert' },
    { architecture: 'nomic-bert', typed: false, width: 32, heads: 4, feedForward: 64, pooling: 2, layers: 3 },
  ];
  it.each(everyNth(models, 3))('%o', async (model) => {
    const bytes = tinyEncoder(model);
    const file = await openSource(memorySource(bytes));
    await inEachPrecision(async ({ exact }) => {
      const engine = await loadFromMemory(bytes, { exact });
      try {
        const rounds = roundsToF16(engine.runner);
        const { minCosine, maxAbs } = tolerances[rounds ? 'f16' : 'f32'];
        const { width = 64 } = model;
        expect(engine.model).toMatchObject({ kind: 'embed', embeddingDimensions: width, contextLength: 64 });
        const inputs = lengths.map((length, n) => someIds(length, n));
        const { embeddings, promptTokens } = await engine.embed({ inputs });
        expect(promptTokens).toBe(inputs.flat().length);
        for (const [n, ids] of inputs.entries()) {
          const expected = await referenceEmbedding(file, ids);
          const got = embeddings[n] as Float32Array;
          expect(cosine(got, expected), `${ids.length} tokens`).toBeGreaterThan(minCosine);
          expect(worst(got, expected), `${ids.length} tokens`).toBeLessThan(maxAbs);
        }
        return rounds;
      } finally {
        await engine.close();
      }
    });
  });
});

describe('an embedding model', () => {
  let engine: ResidentEngine;
  beforeAll(async () => {
    engine = await loadFromMemory(tinyEncoder({ architecture: 'bert' }), { parallel: 4 });
  });
  afterAll(() => engine.close());

  it('gives each text the same vector alone, with others, and in any order', async () => {
    const inputs = Array.from({ length: 23 }, (_, n) => someIds((n * 29) % 64 || 64, n));
    const { embeddings } = await engine.embed({ inputs });
    const backwards = await engine.embed({ inputs: inputs.toReversed() });
    expect(backwards.embeddings.toReversed()).toEqual(embeddings);
    for (const [n, input] of inputs.entries()) {
      const alone = await engine.embed({ inputs: [input] });
      expect(worst(alone.embeddings[0] as Float32Array, embeddings[n] as Float32Array)).toBeLessThan(1e-5);
    }
  });

  it('depends on later tokens: the same prefix with different endings', async () => {
    const cls = await loadFromMemory(tinyEncoder({ architecture: 'bert', pooling: 2 }));
    const { embeddings } = await cls.embed({
      inputs: [
        [...someIds(20), 7],
        [...someIds(20), 9],
      ],
    });
    expect(cosine(embeddings[0] as Float32Array, embeddings[1] as Float32Array)).toBeLessThan(0.9999);
    await cls.close();
  });

  it('returns unit vectors, of fewer elements on request', async () => {
    const inputs = [someIds(12), someIds(40, 1)];
    const whole = await engine.embed({ inputs });
    const short = await engine.embed({ inputs, dimensions: 10 });
    for (const [n, vector] of short.embeddings.entries()) {
      expect(vector).toHaveLength(10);
      expect(cosine(vector, vector)).toBeCloseTo(1, 6);
      const start = (whole.embeddings[n] as Float32Array).slice(0, 10);
      expect(cosine(vector, start) / Math.sqrt(cosine(start, start))).toBeCloseTo(1, 6);
    }
    for (const vector of whole.embeddings) expect(cosine(vector, vector)).toBeCloseTo(1, 6);
  });

  it('rejects what it cannot embed, naming all of it', async () => {
    const long = await refusal(engine.embed({ inputs: [someIds(65), someIds(64), someIds(70)] }));
    expect(long).toMatchObject({ code: 'context_length_exceeded' });
    expect(long.message).toMatch(/64 tokens.*input 0 has 65, input 2 has 70/);
    const wrong = await refusal(engine.embed({ inputs: [[], [1], []], dimensions: 65 }));
    expect(wrong).toMatchObject({ code: 'invalid_request' });
    expect(wrong.message).toMatch(/input 0, 2.*1 to 64, got 65/);
    const prompt = { prompt: [1], maxTokens: 1, sampling: greedySampling, stop: [] };
    expect(() => engine.generate(prompt)).toThrow(/makes embeddings/);
    expect(await engine.embed({ inputs: [] })).toEqual({ embeddings: [], promptTokens: 0 });
  });

  it('serves many requests at once, and counts them', async () => {
    const before = engine.stats();
    const requests = Array.from({ length: 12 }, (_, n) => [someIds(5 + n, n), someIds(64 - n, n)]);
    const alone: Float32Array[][] = [];
    for (const inputs of requests) alone.push((await engine.embed({ inputs })).embeddings);
    const together = await Promise.all(requests.map((inputs) => engine.embed({ inputs })));
    for (const [n, { embeddings }] of together.entries()) {
      for (const [m, vector] of embeddings.entries()) {
        expect(worst(vector, alone[n]?.[m] as Float32Array)).toBeLessThan(1e-5);
      }
    }
    const after = engine.stats();
    expect(after.embeddings - before.embeddings).toBe(48);
    expect(after.promptTokens - before.promptTokens).toBe(2 * requests.flat(2).length);
    expect(after).toMatchObject({ running: 0, queued: 0, completions: 0 });
  });

  it('ends a request whose signal aborts, in any phase, and no other', async () => {
    const many = Array.from({ length: 60 }, (_, n) => someIds(60, n));
    const controller = new AbortController();
    const running = engine.embed({ inputs: many, signal: controller.signal });
    const other = engine.embed({ inputs: [someIds(9)] });
    const waiting = new AbortController();
    const queued = engine.embed({ inputs: [someIds(3)], signal: waiting.signal });
    const reason = new Error('no longer wanted');
    waiting.abort(reason);
    expect(await refusal(queued)).toBe(reason);
    await other;
    controller.abort(reason);
    expect(await refusal(running)).toBe(reason);
    expect(await refusal(engine.embed({ inputs: many, signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(engine.stats()).toMatchObject({ running: 0, queued: 0 });
    expect((await engine.embed({ inputs: [someIds(9)] })).embeddings).toEqual((await other).embeddings);
  });

  it('rejects requests beyond the queue limit', async () => {
    const small = await loadEngine(memoryPlatform(tinyEncoder({ architecture: 'bert' })), {
      model: 'memory.gguf',
      parallel: 1,
      queue: 1,
    });
    const inputs = [someIds(64), someIds(64, 1)];
    const taken = [small.embed({ inputs }), small.embed({ inputs })];
    expect(await refusal(small.embed({ inputs }))).toMatchObject({ code: 'queue_full' });
    await Promise.all(taken);
    await small.embed({ inputs });
    await small.close();
  });

  it('shares the device with exclusive work', async () => {
    const inputs = Array.from({ length: 20 }, (_, n) => someIds(50, n));
    const order: string[] = [];
    const first = engine.embed({ inputs }).then(() => order.push('first'));
    const alone = engine.exclusive(async () => void order.push('alone'));
    const second = alone.then(() => engine.embed({ inputs }).then(() => order.push('second')));
    await Promise.all([first, alone, second]);
    expect(order).toEqual(['first', 'alone', 'second']);
  });
});

describe('a decoder that specifies a pooling', () => {
  it('uses its last token, the same in one step as in several', async () => {
    const model = tinyModel({ architecture: 'qwen3', pooling: 3, context: 512 });
    const engine = await loadFromMemory(model, { parallel: 3 });
    const { capacity } = engine.runner.memory;
    // A step of 128 tokens on a software adapter: the longest texts take several.
    const inputs = [1, 40, 129, 300, 512, 5].map((length, n) => someIds(length, n));
    const { embeddings } = await engine.embed({ inputs });
    for (const [n, input] of inputs.entries()) {
      const alone = await engine.embed({ inputs: [input] });
      expect(worst(alone.embeddings[0] as Float32Array, embeddings[n] as Float32Array)).toBeLessThan(1e-4);
    }
    expect(capacity.pages * 32).toBeGreaterThanOrEqual(512);
    await engine.close();
  });

  it.each([1, 2])('holds whole texts in a step when the pooling reads all tokens (%i)', async (pooling) => {
    const engine = await loadFromMemory(tinyModel({ architecture: 'llama', pooling, context: 300 }));
    expect(engine.runner.memory.capacity.stepTokens).toBeGreaterThanOrEqual(300);
    const { embeddings } = await engine.embed({ inputs: [someIds(300), someIds(2)] });
    const [alone] = (await engine.embed({ inputs: [someIds(300)] })).embeddings;
    expect(worst(alone as Float32Array, embeddings[0] as Float32Array)).toBeLessThan(1e-5);
    await engine.close();
  });
});

describe('a file', () => {
  it('of an encoder without a pooling is rejected', async () => {
    const model = tinyEncoder({ architecture: 'bert', pooling: 0 });
    await expect(loadFromMemory(model)).rejects.toThrow(/bert\.pooling_type.*modules\.json/s);
  });

  it('with an unsupported pooling is rejected with a list of supported ones', async () => {
    const model = tinyEncoder({ architecture: 'bert', pooling: 4 });
    await expect(loadFromMemory(model)).rejects.toThrow(/pooling_type 4.*mean.*cls.*last/);
    const unknown = tinyEncoder({ architecture: 'bert', pooling: 5 });
    await expect(loadFromMemory(unknown)).rejects.toThrow(/pooling_type 5.*mean.*cls.*last/);
    // Only some architectures have heads that rank.
    const ranking = tinyModel({ architecture: 'llama', pooling: 4 });
    await expect(loadFromMemory(ranking)).rejects.toThrow(/pooling_type 4.*mean.*cls.*last/);
  });

  it('whose values overflow gives an error instead of NaN', async () => {
    const model = tinyModel({ architecture: 'llama', pooling: 3 });
    const engine = await loadFromMemory(model);
    const embed = engine.runner.embed.bind(engine.runner);
    engine.runner.embed = async (step) => (await embed(step)).map((row) => row.fill(Number.NaN));
    expect(await refusal(engine.embed({ inputs: [[1]] }))).toMatchObject({ code: 'broken_model' });
    await engine.close();
  });
});

describe('a lost device of an embedding model', () => {
  it('fails running requests, is replaced, and gives the same vectors', async () => {
    const notices: string[] = [];
    const own = await loadFromMemory(tinyEncoder({ architecture: 'nomic-bert' }), {
      onNotice: (notice) => notices.push(notice),
    });
    const inputs = [someIds(30)];
    const expected = await own.embed({ inputs });
    const running = own.embed({ inputs: Array.from({ length: 200 }, (_, n) => someIds(64, n)) });
    own.runner.gpu.device.destroy();
    expect(await refusal(running)).toMatchObject({ code: 'device_lost' });
    expect(await refusal(own.embed({ inputs }))).toMatchObject({ code: 'device_lost' });
    await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
    expect(await own.embed({ inputs })).toEqual(expected);
    expect(own.stats().deviceLosses).toBe(1);
    own.runner.embed = () => Promise.reject(new Error('refused'));
    expect(await refusal(own.embed({ inputs }))).toMatchObject({ code: 'device_lost' });
    await expect.poll(() => own.stats().deviceLosses).toBe(2);
    await expect.poll(() => notices.at(-1)).toBe('the model is loaded again');
    expect(await own.embed({ inputs })).toEqual(expected);
    const last = own.embed({ inputs: Array.from({ length: 200 }, (_, n) => someIds(64, n)) });
    const closed = own.close();
    expect(await refusal(last)).toMatchObject({ code: 'shutting_down' });
    await closed;
    expect(await refusal(own.embed({ inputs }))).toMatchObject({ code: 'shutting_down' });
  });
});
