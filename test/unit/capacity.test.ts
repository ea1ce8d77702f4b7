import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { averageBlockBytes, weightFormats } from '../../kernels/formats.ts';
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { type CapacityRequest, chooseCapacity } from '../../src/engine/memory/capacity.ts';
import type { Shape } from '../../src/engine/graph/graph.ts';
import { pageBytes, pageBytesPerBinding, workspaceBytes } from '../../src/engine/memory/memory.ts';
import { maxStepSamples } from '../../src/engine/execution/step.ts';
import { EngineError } from '../../src/engine/types.ts';

const GiB = 2 ** 30;

/** Llama 3.2 1B. */
const shape: Shape = {
  layers: 16,
  width: 2048,
  heads: 32,
  kvHeads: 8,
  headDim: 64,
  feedForward: 8192,
  vocabulary: 128_256,
  eps: 1e-5,
  embeddingScale: 1,
  ropes: [{ theta: 500_000, rotary: 64, style: 'interleaved', scale: 1, magnitude: 1 }],
  hasSandwichNorms: false,
  trainedContext: 131_072,
};

const request = (changes: Partial<CapacityRequest> = {}): CapacityRequest => ({
  shape,
  weightBytes: 1.3 * GiB,
  memoryBytes: 16 * GiB,
  maxBindingBytes: 2 * GiB,
  software: true,
  slots: 8,
  name: 'model.gguf',
  ...changes,
});

/** What must fit: weights, workspace and cache. */
const used = (one: CapacityRequest, capacity: ReturnType<typeof chooseCapacity>) =>
  one.weightBytes + workspaceBytes(one.shape, capacity) + capacity.pages * pageBytes(one.shape);

function refusal(one: CapacityRequest): EngineError {
  try {
    chooseCapacity(one);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('with a draft model', () => {
  const draft = {
    shape: { ...shape, layers: 8, trainedContext: 4096 },
    weightBytes: 0.6 * GiB,
    name: 'small.gguf',
  };
  const all = (one: CapacityRequest) => {
    const capacity = chooseCapacity(one);
    const own = { ...capacity, context: Math.min(capacity.context, draft.shape.trainedContext) };
    return { capacity, bytes: used(one, capacity) + used({ ...one, ...draft }, own) };
  };

  it('everything of both models fits, with a smaller context', () => {
    for (const memory of [2.5, 3, 4, 6]) {
      const alone = chooseCapacity(request({ memoryBytes: memory * GiB }));
      const { capacity, bytes } = all(request({ memoryBytes: memory * GiB, draft }));
      expect(bytes).toBeLessThanOrEqual(memory * GiB);
      // One more page of both would not fit, or is not needed.
      const more = bytes + pageBytes(shape) + pageBytes(draft.shape);
      const isFull = capacity.pages === capacity.slots * Math.ceil(capacity.context / pageTokens);
      if (!isFull) expect(more).toBeGreaterThan(memory * GiB);
      // One of them needs less, and the other no more.
      expect(capacity.pages * capacity.context).toBeLessThan(alone.pages * alone.context);
      expect(capacity.context).toBeLessThanOrEqual(alone.context);
    }
  });

  it('is rejected when it does not fit in addition to a target model that does', () => {
    const one = request({ memoryBytes: 1.9 * GiB, context: 1024 });
    expect(chooseCapacity(one).context).toBe(1024);
    const { code, message } = refusal({ ...one, draft });
    expect(code).toBe('model_too_large');
    expect(message).toMatch(
      /^model\.gguf with the draft model small\.gguf needs .* are missing; .*, or leave out --draft$/,
    );
  });

  it('--kv-cache-bytes holds the pages of both', () => {
    const both = pageBytes(shape) + pageBytes(draft.shape);
    expect(chooseCapacity(request({ context: 512, kvCacheBytes: 40 * both, draft })).pages).toBe(40);
    expect(refusal(request({ context: 512, kvCacheBytes: 16 * both - 1, draft })).code).toBe(
      'invalid_request',
    );
  });
});

describe('chooseCapacity', () => {
  it('reserves states for all slots, and retained states within a small part of the memory', () => {
    const floats = 4 * 2 ** 20;
    const caches = [
      { kind: 'pages', kvHeads: 8, headDim: 64 },
      { kind: 'state', floats },
    ] as const;
    const one = request({ shape: { ...shape, caches }, context: 2048 });
    const capacity = chooseCapacity(one);
    expect(capacity.retainedStates).toBe(32);
    expect(used(one, capacity)).toBeLessThan(one.memoryBytes as number);
    const { retainedStates = 0 } = chooseCapacity({ ...one, memoryBytes: 3 * GiB });
    expect(retainedStates).toBe(Math.floor((3 * GiB) / 32 / (floats * 4)));
    expect(
      workspaceBytes(one.shape, { ...capacity, retainedStates: 33 }) - workspaceBytes(one.shape, capacity),
    ).toBe(floats * 4);
    expect(chooseCapacity(request()).retainedStates).toBeUndefined();
  });

  it('uses the context that the user names, and as many pages as fit for such sequences', () => {
    const capacity = chooseCapacity(request({ context: 2048 }));
    expect(capacity).toMatchObject({ context: 2048, slots: 8, pages: (8 * 2048) / pageTokens });
  });

  it('without a context, uses the trained context, at most 32768', () => {
    expect(chooseCapacity(request({ memoryBytes: 64 * GiB })).context).toBe(32768);
    const short = { ...shape, trainedContext: 1000 };
    const capacity = chooseCapacity(request({ shape: short }));
    expect(capacity.context).toBe(1000);
    expect(capacity.pages).toBe(8 * Math.ceil(1000 / pageTokens));
  });

  it('shrinks a default context until one sequence fits', () => {
    const { context, pages } = chooseCapacity(request({ memoryBytes: 2.3 * GiB }));
    expect(context).toBeLessThan(32768);
    expect(pages).toBeGreaterThanOrEqual(context / pageTokens);
  });

  it('takes a share of the memory for keys and values, and at least one context', () => {
    const one = request({ memoryBytes: 6 * GiB });
    const { context, pages } = chooseCapacity(one);
    expect(context).toBe(32768);
    const cacheBytes = pages * pageBytes(shape);
    const half = chooseCapacity({ ...one, cacheShare: 1 / 2 });
    expect(half.context).toBe(context);
    expect(half.pages * pageBytes(shape)).toBeLessThanOrEqual(cacheBytes / 2 + pageBytes(shape));
    expect(half.pages).toBeGreaterThan(pages / 2 - 2);
    expect(chooseCapacity({ ...one, cacheShare: 1 / 64 }).pages).toBe(context / pageTokens);
    expect(chooseCapacity({ ...one, memoryBytes: undefined, cacheShare: 1 / 2 })).toEqual(
      chooseCapacity({ ...one, memoryBytes: undefined }),
    );
  });

  it('refuses a default context that would have to shrink where asked to keep it, with the missing bytes', () => {
    const one = request({ weightBytes: GiB, memoryBytes: 2 * GiB });
    expect(chooseCapacity(one).context).toBeLessThan(32768);
    const error = refusal({ ...one, keepsContext: true });
    expect(error.message).toContain('context of 32768 tokens');
    const missing = error.missingBytes ?? 0;
    expect(missing).toBeGreaterThan(0);
    const enough = { ...one, keepsContext: true, memoryBytes: 2 * GiB + missing };
    expect(chooseCapacity(enough).context).toBe(32768);
    expect(refusal({ ...enough, memoryBytes: enough.memoryBytes - pageBytes(shape) }).missingBytes).toBe(
      pageBytes(shape),
    );
    // More memory does not help where the adapter binds too little.
    const narrow = { ...one, keepsContext: true, context: 131_072, maxBindingBytes: 2 ** 20 };
    expect(refusal(narrow).missingBytes).toBeUndefined();
  });

  it('rejects an explicit context that does not fit, with both sizes and a suggestion', () => {
    const error = refusal(request({ context: 131_072, memoryBytes: 4 * GiB }));
    expect(error.code).toBe('model_too_large');
    expect(error.message).toMatch(
      /^model\.gguf needs [\d.]+ GiB \(weights 1\.3 GiB, context of 131072 tokens\), the device offers 4\.0 GiB: 1\.4 GiB are missing; use .*, or use --context 65536$/,
    );
  });

  it('rejects weights that do not fit before anything is loaded', () => {
    const error = refusal(request({ weightBytes: 20 * GiB }));
    expect(error.code).toBe('model_too_large');
    expect(error.message).toContain('weights 20.0 GiB');
    expect(error.message).toContain('16.0 GiB');
  });

  describe('the error for a model that does not fit says how much is missing and', () => {
    // 1.2 billion weights, 2.3 GiB in F16.
    const f16 = (memoryBytes: number, changes: Partial<CapacityRequest> = {}) =>
      refusal(
        request({
          weightBytes: 2.3 * GiB,
          matrices: { blocks: (2.3 * GiB) / 64, quantizable: true },
          context: 512,
          memoryBytes,
          ...changes,
        }),
      ).message;

    it('suggests the best quantization that fits, including one the engine can make while loading', () => {
      expect(f16(2 * GiB)).toMatch(
        /: \d+ MiB are missing; in Q8_0 its weights would take about 1\.2 GiB and fit: get the model in Q8_0, or load this one with --quantize q8_0$/,
      );
      expect(f16(1.1 * GiB)).toMatch(/in Q6_K its weights .*--quantize q4_0$/);
    });

    it('does not suggest quantizing weights that are already quantized', () => {
      const quantized = { matrices: { blocks: (2.3 * GiB) / 64, quantizable: false } };
      expect(f16(1.0 * GiB, quantized)).toMatch(
        /in Q5_K its weights would take about \d+ MiB and fit: get the model in Q5_K$/,
      );
    });

    it('says that no quantization fits, and by how much', () => {
      expect(f16(0.4 * GiB)).toMatch(
        /not even Q2_K \(about \d+ MiB\) would fit, [\d.]+ MiB would be missing: use a smaller model$/,
      );
      const smallest = { weightBytes: 0.3 * GiB, matrices: { blocks: 40_000_000, quantizable: false } };
      expect(f16(0.35 * GiB, smallest)).toMatch(/in the smallest quantization already: use a smaller model$/);
    });

    it('suggests a quantization that does fit, for any memory size; when the size is unknown, the device decides', () => {
      const requests = fc.record({
        memory: fc.option(fc.double({ min: 0.5, max: 12, noNaN: true }), { nil: undefined }),
        context: fc.option(fc.integer({ min: 1, max: shape.trainedContext }), { nil: undefined }),
        slots: fc.integer({ min: 1, max: 16 }),
      });
      fc.assert(
        fc.property(requests, ({ memory, context, slots }) => {
          const one = request({
            // 64 KiB of cache for each token: the longest context takes 8 GiB.
            shape: { ...shape, layers: 32 },
            weightBytes: 2.3 * GiB,
            matrices: { blocks: (2.3 * GiB) / 64, quantizable: true },
            memoryBytes: memory && memory * GiB,
            maxBindingBytes: 2 ** 50,
            slots,
            ...(context === undefined ? {} : { context }),
          });
          let message: string;
          try {
            chooseCapacity(one);
            return;
          } catch (error) {
            message = error instanceof Error ? error.message : '';
          }
          expect(memory, message).toBeDefined();
          const type = /get the model in (\w+)/.exec(message)?.[1] as keyof typeof weightFormats | undefined;
          if (type === undefined) expect(message).toContain('not even Q2_K');
          else
            chooseCapacity({
              ...one,
              weightBytes: ((2.3 * GiB) / 64) * averageBlockBytes(weightFormats[type]),
            });
          const shorter = /or use --context (\d+)/.exec(message)?.[1];
          if (shorter !== undefined) chooseCapacity({ ...one, context: Number(shorter) });
        }),
        { numRuns: 300 },
      );
    });
  });

  describe('when the memory of the device is unknown', () => {
    const unknown = { memoryBytes: undefined, maxBindingBytes: 2 ** 50 };
    /** 8 MiB of cache for each token. */
    const huge = { ...shape, layers: 128, kvHeads: 128, headDim: 128 };

    it('accepts an explicit context of any length, with full sequences while there are few', () => {
      const one = request({ ...unknown, shape: huge, context: 131_072 });
      expect(chooseCapacity(one)).toMatchObject({ context: 131_072, pages: 131_072 / pageTokens });
      const short = request({ ...unknown, context: 1024 });
      expect(chooseCapacity(short)).toMatchObject({ context: 1024, pages: (8 * 1024) / pageTokens });
    });

    it('accepts any explicit cache size', () => {
      const bytes = 200 * GiB;
      const one = request({ ...unknown, shape: huge, context: 8192, kvCacheBytes: bytes });
      expect(chooseCapacity(one).pages).toBe(Math.floor(bytes / pageBytes(huge)));
    });

    it('shrinks a default context to a cache of a few GiB, and never rejects the minimum', () => {
      const { context, pages } = chooseCapacity(request({ ...unknown, shape: { ...huge, kvHeads: 16 } }));
      expect(context).toBeLessThan(32768);
      expect(pages * pageBytes({ ...huge, kvHeads: 16 })).toBeLessThanOrEqual(4 * GiB);
      const widest = { ...huge, kvHeads: 256 };
      expect(chooseCapacity(request({ ...unknown, shape: widest })).context).toBe(512);
    });
  });

  it('rejects a cache whose layer exceeds one binding, with both sizes', () => {
    const error = refusal(
      request({ context: 131_072, memoryBytes: 64 * GiB, maxBindingBytes: 64 * 2 ** 20 }),
    );
    expect(error.code).toBe('model_too_large');
    expect(error.message).toMatch(/take 128 MiB, the adapter binds at most 64\.0 MiB/);
  });

  it('rejects more context than the model was trained for, with both numbers', () => {
    const error = refusal(request({ context: 131_073 }));
    expect(error.code).toBe('invalid_request');
    expect(error.message).toMatch(/131073 .*131072/);
  });

  it('a byte budget sets the number of pages and limits a default context', () => {
    const budget = 100 * pageBytes(shape) + 5;
    expect(chooseCapacity(request({ kvCacheBytes: budget }))).toMatchObject({
      pages: 100,
      context: 100 * pageTokens,
    });
    // More than all sequences need is kept for the prefix cache.
    const rich = chooseCapacity(request({ context: 1024, kvCacheBytes: 500 * pageBytes(shape) }));
    expect(rich).toMatchObject({ pages: 500, context: 1024 });
    // Never more than the memory holds.
    const poor = request({ context: 1024, kvCacheBytes: 2 ** 50, memoryBytes: 3 * GiB });
    expect(used(poor, chooseCapacity(poor))).toBeLessThanOrEqual(3 * GiB);
    const unknown = chooseCapacity(
      request({ memoryBytes: undefined, maxBindingBytes: 2 ** 50, kvCacheBytes: 8 * GiB }),
    );
    expect(unknown.pages * pageBytes(shape)).toBeGreaterThan(7.9 * GiB);
  });

  it('a byte budget below the explicit context, or below one page, is rejected with both numbers', () => {
    const page = pageBytes(shape);
    const small = refusal(request({ context: 1024, kvCacheBytes: 31 * page }));
    expect(small.code).toBe('invalid_request');
    expect(small.message).toBe(
      `--kv-cache-bytes ${31 * page} is less than the ${32 * page} bytes that --context 1024 takes`,
    );
    expect(refusal(request({ kvCacheBytes: page - 1 })).message).toBe(
      `--kv-cache-bytes ${page - 1} is less than the ${page} bytes that a page of 32 tokens takes`,
    );
  });

  it('a step holds one token of every slot, and drafts', () => {
    const { stepTokens } = chooseCapacity(request({ slots: 1000, context: 64, memoryBytes: 64 * GiB }));
    expect(stepTokens).toBeGreaterThan(maxStepSamples(1000));
  });

  it('a model with a short context gets no more than that', () => {
    const tiny = { ...shape, trainedContext: 64 };
    expect(chooseCapacity(request({ shape: tiny })).context).toBe(64);
  });

  it('fits into memory and bindings with at least one full sequence, or is rejected', () => {
    const requests = fc.record({
      memoryBytes: fc.option(fc.integer({ min: GiB, max: 64 * GiB }), { nil: undefined }),
      maxBindingBytes: fc.integer({ min: 2 ** 20, max: 4 * GiB }),
      weightBytes: fc.integer({ min: 2 ** 20, max: 8 * GiB }),
      slots: fc.integer({ min: 1, max: 64 }),
      software: fc.boolean(),
      trained: fc.integer({ min: 1, max: 200_000 }),
      named: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
    });
    fc.assert(
      fc.property(requests, ({ trained, named, ...changes }) => {
        const context = named === null ? {} : { context: Math.max(1, Math.floor(named * trained)) };
        const one = request({ ...changes, ...context, shape: { ...shape, trainedContext: trained } });
        let capacity: ReturnType<typeof chooseCapacity>;
        try {
          capacity = chooseCapacity(one);
        } catch (error) {
          expect((error as EngineError).code).toBe('model_too_large');
          return;
        }
        expect(capacity.context).toBeLessThanOrEqual(trained);
        if (one.context !== undefined) expect(capacity.context).toBe(one.context);
        expect(capacity.pages * pageTokens).toBeGreaterThanOrEqual(capacity.context);
        expect(capacity.pages).toBeLessThanOrEqual(capacity.slots * Math.ceil(capacity.context / pageTokens));
        expect(capacity.pages * pageBytesPerBinding(shape)).toBeLessThanOrEqual(one.maxBindingBytes);
        if (one.memoryBytes !== undefined) {
          expect(used(one, capacity)).toBeLessThanOrEqual(one.memoryBytes);
        }
      }),
      { numRuns: 500 },
    );
  });
});
