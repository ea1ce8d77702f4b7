import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { singleTileFlag } from '../../kernels/rope-kv-write.ts';
import { sampleFlags, sampleWords } from '../../kernels/sample.ts';
import {
  feedbackToken,
  samplingFlagsOf,
  StepInput,
  stepLayout,
  maxStepSamples,
  requestFlagsOf,
} from '../../src/engine/execution/step.ts';
import { greedySampling, type Sampling } from '../../src/engine/types.ts';

const limits = { slots: 4, tokens: 64, tileTokens: 4 };
const layout = stepLayout(limits);
const newStep = () => new StepInput(layout, { tileTokens: limits.tileTokens, splitTokens: 512 });

/** The records of an area, `words` words each. */
function records(step: StepInput, area: number, count: number, words: number): number[][] {
  // The GPU does not see anything that `bytes` leaves out.
  const all = step.bytes();
  const from = area / 4;
  return Array.from({ length: count }, (_, i) =>
    Array.from(all.subarray(from + i * words, from + (i + 1) * words)),
  );
}

describe('stepLayout', () => {
  it('areas are aligned, large enough and disjoint, for any limits', () => {
    const anyLimits = fc.record({
      slots: fc.integer({ min: 1, max: 100 }),
      tokens: fc.integer({ min: 1, max: 1000 }),
      tileTokens: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(anyLimits, ({ slots, tokens, tileTokens }) => {
        const made = stepLayout({ slots, tokens, tileTokens });
        for (const offset of [made.samples, made.singleTiles, made.splitTiles, made.wideTiles, made.tokens]) {
          expect(offset % 256).toBe(0);
        }
        expect(made.samples).toBeGreaterThanOrEqual(16);
        expect(made.singleTiles - made.samples).toBeGreaterThanOrEqual(
          maxStepSamples(slots) * sampleWords * 4,
        );
        expect(made.splitTiles - made.singleTiles).toBeGreaterThanOrEqual(maxStepSamples(slots) * 16);
        expect(made.wideTiles - made.splitTiles).toBeGreaterThanOrEqual(slots * 16);
        // The worst distribution of tokens: each sequence ends in a partial tile.
        const worst = Math.ceil(tokens / tileTokens) + slots;
        expect(made.tokens - made.wideTiles).toBeGreaterThanOrEqual(worst * 16);
        expect(made.sizeBytes - made.tokens).toBeGreaterThanOrEqual(tokens * 16);
      }),
    );
  });
});

describe('StepInput', () => {
  it('counts decoded and verified rows separately from prompt rows', () => {
    const step = newStep();
    step.verifyTokens(1, [2, 3], 4, 1);
    step.decodeToken(1, 9, 2);
    expect(step.dims).toMatchObject({ tokens: 4, decodeRows: 4 });
    step.prefillTokens([1, 2, 3], 0, 3, 0);
    expect(step.dims).toMatchObject({ tokens: 7, decodeRows: 4 });
    expect(Array.from(step.bytes().subarray(0, 4))).toEqual([7, 0, 0, 4]);
    expect(() => step.decodeToken(1, 0, 3)).toThrow('before rows of prompts');
    step.clear();
    expect(step.dims.decodeRows).toBe(0);
  });

  it('a decoded token is one row, one tile and part of the context', () => {
    const step = newStep();
    expect(step.decodeToken(feedbackToken, 511, 2)).toBe(0);
    expect(step.dims).toMatchObject({ tokens: 1, singleTiles: 1, wideTiles: 0, splits: 1 });
    expect(step.decodeToken(7, 512, 0)).toBe(1);
    expect(step.dims).toMatchObject({ tokens: 2, decodeRows: 2, singleTiles: 1, splitTiles: 1, splits: 2 });
    expect(records(step, layout.tokens, 2, 4)).toEqual([
      [feedbackToken, 511, 2, singleTileFlag],
      [7, 512, 0, singleTileFlag],
    ]);
    expect(records(step, layout.singleTiles, 1, 4)).toEqual([[0, 1, 2, 511]]);
    expect(records(step, layout.splitTiles, 1, 4)).toEqual([[1, 1 + 512 * 0x10000, 0, 512]]);
    expect(Array.from(step.bytes().subarray(0, 4))).toEqual([2, 0, 1, 2]);
  });

  it('where decode rows are separate, drafts and recomputed answers have tiles as decoded tokens have', () => {
    const step = new StepInput(layout, { tileTokens: 4, splitTokens: 512, separatesDecodeRows: true });
    expect(step.verifyTokens(feedbackToken, [21, 22], 100, 2)).toBe(0);
    expect(step.decodeTokens([31, 32, 33], 510, 1)).toBe(5);
    expect(step.dims).toMatchObject({
      tokens: 6,
      decodeRows: 6,
      singleTiles: 5,
      splitTiles: 1,
      wideTiles: 0,
    });
    expect(step.dims).toMatchObject({ sequenceRuns: 2, splits: 2, hasConsecutiveTiles: true });
    expect(records(step, layout.singleTiles, 5, 4)).toEqual([
      [0, 1, 2, 100],
      [1, 1, 2, 101],
      [2, 1, 2, 102],
      [3, 1, 1, 510],
      [4, 1, 1, 511],
    ]);
    expect(records(step, layout.splitTiles, 1, 4)).toEqual([[5, 1 + 512 * 0x10000, 1, 512]]);
    // 20 tiles of one token, and one split tile for each slot.
    expect(step.decodeRoom(0)).toBe(maxStepSamples(limits.slots) - 5);
    expect(step.decodeRoom(510)).toBe(2 + 3);
    expect(step.decodeRoom(600)).toBe(3);
  });

  it('prompt tokens are rows at consecutive positions in tiles; the last row is returned', () => {
    const step = newStep();
    const prompt = Array.from({ length: 20 }, (_, i) => 100 + i);
    step.decodeToken(1, 0, 3);
    expect(step.prefillTokens(prompt, 9, 6, 1)).toBe(6);
    expect(step.prefillTokens(prompt, 0, 1, 0)).toBe(7);
    expect(records(step, layout.tokens, 8, 4).slice(1)).toEqual([
      ...Array.from({ length: 6 }, (_, i) => [109 + i, 9 + i, 1, 0]),
      [100, 0, 0, 0],
    ]);
    expect(records(step, layout.wideTiles, 3, 4)).toEqual([
      [1, 4, 1, 9],
      [5, 2, 1, 13],
      [7, 1, 0, 0],
    ]);
    // Prompts are read whole, never in splits.
    expect(step.dims).toMatchObject({ tokens: 8, singleTiles: 1, wideTiles: 3, splits: 1 });
  });

  it('a token and its drafts are rows at consecutive positions in tiles; the first row is returned', () => {
    const step = newStep();
    step.decodeToken(1, 0, 3);
    expect(step.verifyTokens(feedbackToken, [21, 22, 23, 24], 600, 2)).toBe(1);
    expect(records(step, layout.tokens, 6, 4).slice(1)).toEqual([
      [feedbackToken, 600, 2, 0],
      ...[21, 22, 23, 24].map((id, i) => [id, 601 + i, 2, 0]),
    ]);
    expect(records(step, layout.wideTiles, 2, 4)).toEqual([
      [1, 4, 2, 600],
      [5, 1, 2, 604],
    ]);
    expect(step.dims).toMatchObject({ tokens: 6, singleTiles: 1, wideTiles: 2, splits: 1 });
  });

  it('writes every sampling parameter where the shader reads it', () => {
    const step = newStep();
    const sampling: Sampling = {
      temperature: 0.5,
      topK: 40,
      topP: 0.25,
      minP: 0.125,
      repetitionPenalty: 1.5,
      presencePenalty: -0.5,
      frequencyPenalty: 0.75,
      logitBias: new Map([[1, 2]]),
      seed: 0xfffffffe,
    };
    step.sample(5, 3, 17, sampling);
    const [record = []] = records(step, layout.samples, 1, sampleWords);
    expect(record.slice(0, 6)).toEqual([5, 3, 3, 0xfffffffe, 17, 40]);
    expect([...new Float32Array(Uint32Array.from(record).buffer).slice(6)]).toEqual([
      0.5, 0.25, 0.125, 1.5, -0.5, 0.75,
    ]);
    expect(step.dims).toMatchObject({ samples: 1, needsLogitAdjustment: true });
  });

  it('records the optional features of a sample, and the kernels they require', () => {
    const step = newStep();
    const constraint = { next: () => Promise.resolve(undefined), close() {} };
    expect(requestFlagsOf({})).toBe(0);
    expect(step.sample(0, 1, 9, greedySampling, requestFlagsOf({ logprobs: 5 }))).toBe(0);
    expect(step.dims).toMatchObject({ needsLogitAdjustment: false, needsLogprobs: true });
    expect(
      step.sample(1, 2, 9, { ...greedySampling, presencePenalty: 1 }, requestFlagsOf({ constraint })),
    ).toBe(1);
    expect(step.dims).toMatchObject({ samples: 2, needsLogitAdjustment: true, needsLogprobs: true });
    const flags = records(step, layout.samples, 2, sampleWords).map((record) => record[2]);
    expect(flags).toEqual([0x508, sampleFlags.penalties | sampleFlags.mask]);
  });

  it('a scored token is a sample of the dummy slot', () => {
    const step = newStep();
    step.sample(0, 1, 9, greedySampling);
    expect(step.score(7, 0xfffffff0, requestFlagsOf({ logprobs: 0 }))).toBe(1);
    const [, record = []] = records(step, layout.samples, 2, sampleWords);
    expect(record.slice(0, 7)).toEqual([
      7,
      limits.slots,
      sampleFlags.logprobs | sampleFlags.scored,
      0xfffffff0,
      0,
      0,
      0,
    ]);
    expect(step.dims).toMatchObject({ samples: 2, needsLogitAdjustment: false, needsLogprobs: true });
  });

  it.each([1e-45, 1e-39, 1e-31])(
    'temperature %j is greedy: its reciprocal is not finite, or logits times it',
    (temperature) => {
      const step = newStep();
      step.sample(0, 0, 1, { ...greedySampling, temperature });
      const [record = []] = records(step, layout.samples, 1, sampleWords);
      expect(record[6]).toBe(0);
    },
  );

  it('top_k 1 is greedy', () => {
    const step = newStep();
    step.sample(0, 0, 1, { ...greedySampling, temperature: 2, topK: 1 });
    const [record = []] = records(step, layout.samples, 1, sampleWords);
    expect(record[6]).toBe(0);
  });

  it('clear resets everything but the memory', () => {
    const step = newStep();
    step.decodeToken(1, 600, 0);
    step.sample(0, 0, 1, { ...greedySampling, presencePenalty: 1 });
    step.prefillTokens([1, 2, 3], 0, 3, 1);
    step.pageCopies.push({ from: 1, to: 2 });
    step.clear();
    expect(step.pageCopies).toEqual([]);
    expect(step.dims).toEqual({
      tokens: 0,
      decodeRows: 0,
      samples: 0,
      singleTiles: 0,
      splitTiles: 0,
      wideTiles: 0,
      hasConsecutiveTiles: false,
      sequenceRuns: 0,
      splits: 1,
      needsLogitAdjustment: false,
      needsLogprobs: false,
    });
    expect(step.decodeToken(1, 0, 0)).toBe(0);
    expect(step.bytes().byteLength).toBe(layout.tokens + 16);
  });

  it('any mix within the limits stays inside its areas', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: limits.slots });
    fc.assert(
      fc.property(lengths, (counts) => {
        const step = newStep();
        const prompt = Array.from({ length: 20 }, () => 9);
        let left = limits.tokens;
        // Decoded tokens come first.
        const ordered = counts.toSorted((a, b) => Number(a > 1) - Number(b > 1));
        ordered.forEach((count, slot) => {
          const take = Math.min(count, left);
          if (take === 0) return;
          const row = count === 1 ? step.decodeToken(9, 3, slot) : step.prefillTokens(prompt, 0, take, slot);
          step.sample(row, slot, take, greedySampling);
          left -= take;
        });
        const { dims } = step;
        expect(layout.samples + dims.samples * sampleWords * 4).toBeLessThanOrEqual(layout.singleTiles);
        expect(layout.singleTiles + dims.singleTiles * 16).toBeLessThanOrEqual(layout.wideTiles);
        expect(layout.wideTiles + dims.wideTiles * 16).toBeLessThanOrEqual(layout.tokens);
        expect(step.bytes().byteLength).toBeLessThanOrEqual(layout.sizeBytes);
        const tiles = [
          ...records(step, layout.singleTiles, dims.singleTiles, 4),
          ...records(step, layout.wideTiles, dims.wideTiles, 4),
        ];
        const covered = tiles.flatMap(([row = 0, count = 0]) =>
          Array.from({ length: count }, (_, i) => row + i),
        );
        expect(covered.sort((a, b) => a - b)).toEqual(Array.from({ length: dims.tokens }, (_, i) => i));
      }),
    );
  });
});

describe('flagsOf', () => {
  it('reports what the step has to read in addition to the logits', () => {
    expect(samplingFlagsOf(greedySampling)).toBe(0);
    expect(samplingFlagsOf({ ...greedySampling, temperature: 1, topK: 4, topP: 0.5, minP: 0.1 })).toBe(0);
    expect(samplingFlagsOf({ ...greedySampling, logitBias: new Map([[0, 1]]) })).toBe(sampleFlags.bias);
    for (const change of [{ repetitionPenalty: 1.1 }, { presencePenalty: -1 }, { frequencyPenalty: 0.1 }]) {
      expect(samplingFlagsOf({ ...greedySampling, ...change })).toBe(sampleFlags.penalties);
    }
  });
});
