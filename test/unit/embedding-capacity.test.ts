import { describe, expect, it } from 'vitest';
import type { CapacityRequest } from '../../src/engine/memory/capacity.ts';
import { chooseEmbeddingCapacity } from '../../src/engine/memory/embedding-capacity.ts';
import type { Embedding, Shape } from '../../src/engine/graph/graph.ts';
import { EngineError } from '../../src/engine/types.ts';
import { largestBinding, pageBytes, workspaceBytes } from '../../src/engine/memory/memory.ts';

const whole: Embedding = {
  pooling: 'mean',
  dimensions: 384,
  from: 'last',
  requiresWholeSequence: true,
  bidirectional: true,
};
const inChunks: Embedding = { ...whole, pooling: 'last', requiresWholeSequence: false, bidirectional: false };

const shapeFor = (embedding: Embedding, trainedContext: number): Shape => ({
  layers: 6,
  width: 384,
  heads: 12,
  kvHeads: 12,
  headDim: 32,
  feedForward: 1536,
  vocabulary: 30522,
  eps: 1e-12,
  embeddingScale: 1,
  ropes: [],
  hasSandwichNorms: false,
  trainedContext,
  embedding,
});

const request = (
  embedding: Embedding,
  trained: number,
  more: Partial<CapacityRequest> = {},
): CapacityRequest => ({
  shape: shapeFor(embedding, trained),
  weightBytes: 45e6,
  memoryBytes: undefined,
  maxBindingBytes: 2 ** 27,
  software: true,
  slots: 32,
  name: 'm.gguf',
  ...more,
});

describe('the capacity of an embedding model', () => {
  it('a step holds the longest text; pages are enough for a step of whole texts', () => {
    const { context, stepTokens, pages } = chooseEmbeddingCapacity(request(whole, 512), whole);
    expect([context, stepTokens]).toEqual([512, 512]);
    // 32 texts of 16 tokens each take a page apiece; one of 512 takes 16.
    expect(pages).toBeGreaterThanOrEqual(32 + 512 / 32 - 1);
    expect(pages).toBeLessThan(64);
  });

  it('keeps its default context where asked to, or says how many bytes are missing', () => {
    const memoryBytes = 45e6 + 40e6;
    const one = request(whole, 8192, { memoryBytes });
    expect(chooseEmbeddingCapacity(one, whole).context).toBeLessThan(2048);
    const refuse = (more: Partial<CapacityRequest>) => {
      try {
        chooseEmbeddingCapacity({ ...one, keepsContext: true, ...more }, whole);
      } catch (error) {
        if (error instanceof EngineError) return error.missingBytes;
      }
      throw new Error('it was not refused');
    };
    const missing = refuse({}) ?? 0;
    expect(missing).toBeGreaterThan(0);
    const enough = { ...one, keepsContext: true, memoryBytes: memoryBytes + missing };
    expect(chooseEmbeddingCapacity(enough, whole).context).toBe(2048);
    expect(refuse({ memoryBytes: memoryBytes + missing - 1 })).toBe(1);
    expect(refuse({ context: 2048, maxBindingBytes: 2 ** 16 })).toBeUndefined();
  });

  it('the default context is at most 2048', () => {
    expect(chooseEmbeddingCapacity(request(whole, 8192), whole).context).toBe(2048);
    const requested = chooseEmbeddingCapacity(request(whole, 8192, { context: 8192 }), whole);
    expect(requested).toMatchObject({ context: 8192, stepTokens: 8192 });
    expect(() => chooseEmbeddingCapacity(request(whole, 512, { context: 513 }), whole)).toThrow(/513.*512/);
  });

  it('texts in chunks: the cache holds the longest text, a step does not', () => {
    const { context, stepTokens, pages } = chooseEmbeddingCapacity(request(inChunks, 32768), inChunks);
    expect(context).toBe(8192);
    expect(stepTokens).toBeLessThan(1000);
    expect(pages).toBeGreaterThanOrEqual(8192 / 32);
  });

  it('a default context shrinks to what the adapter binds and the memory holds; an explicit one is rejected', () => {
    const small = { maxBindingBytes: 1024 * 2 * 1536 * 4 };
    const got = chooseEmbeddingCapacity(request(whole, 8192, small), whole);
    expect(got.context).toBe(1024);
    expect(largestBinding(shapeFor(whole, 8192), got)).toBeLessThanOrEqual(small.maxBindingBytes);
    expect(() => chooseEmbeddingCapacity(request(whole, 8192, { ...small, context: 2048 }), whole)).toThrow(
      /2048 tokens.*binds at most/,
    );

    const memoryBytes = 100e6;
    const fits = chooseEmbeddingCapacity(request(whole, 8192, { memoryBytes }), whole);
    const shape = shapeFor(whole, 8192);
    expect(fits.context).toBeLessThan(2048);
    expect(45e6 + workspaceBytes(shape, fits) + fits.pages * pageBytes(shape)).toBeLessThanOrEqual(
      memoryBytes,
    );
    expect(() => chooseEmbeddingCapacity(request(whole, 512, { memoryBytes: 46e6 }), whole)).toThrow(
      /weights 42.9 MiB.*device offers/,
    );
  });

  it('says how much is missing, and suggests settings only when a smaller one fits', () => {
    const refusal = (memoryBytes: number) => {
      try {
        chooseEmbeddingCapacity(request(whole, 8192, { context: 8192, memoryBytes, software: true }), whole);
      } catch (error) {
        return error instanceof Error ? error.message : '';
      }
      return 'not refused';
    };
    const needed = (() => {
      const one = chooseEmbeddingCapacity(request(whole, 8192, { context: 8192 }), whole);
      const shape = shapeFor(whole, 8192);
      return 45e6 + workspaceBytes(shape, one) + one.pages * pageBytes(shape);
    })();
    expect(refusal(needed)).toBe('not refused');
    expect(refusal(needed - 10 * 2 ** 20)).toMatch(/: 10\.0 MiB are missing; or use a smaller --context/);
    expect(refusal(45e6)).toMatch(/MiB are missing$/);
  });

  it('leaves the limit to a device whose memory size is unknown', () => {
    const requested = { context: 8192, slots: 4096, weightBytes: 2 ** 45, maxBindingBytes: 2 ** 50 };
    expect(chooseEmbeddingCapacity(request(whole, 8192, requested), whole).context).toBe(8192);
  });

  it('respects --kv-cache-bytes', () => {
    expect(() => chooseEmbeddingCapacity(request(whole, 512, { kvCacheBytes: 1000 }), whole)).toThrow(
      /--kv-cache-bytes allows 1000/,
    );
  });

  it('reserves no memory for generation', () => {
    const capacity = chooseEmbeddingCapacity(request(whole, 512), whole);
    const { embedding: _, ...generating } = shapeFor(whole, 512);
    // Logits of every sample, and bias and counts of every slot.
    const saved = workspaceBytes(generating, capacity) - workspaceBytes(shapeFor(whole, 512), capacity);
    expect(saved).toBeGreaterThan(32 * 30522 * 12);
  });
});
