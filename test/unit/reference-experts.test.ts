import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  expertActivation,
  expertMatmul,
  expertSum,
  matmul,
  route,
  softmax,
} from '../../kernels/reference/index.ts';

describe('route', () => {
  it('takes the largest, the best first, of equals the first, and what is no number last', () => {
    const logits = Float64Array.of(1, 3, 3, 2, Number.NaN, 5, 0, Number.NEGATIVE_INFINITY);
    expect([...route(logits, { tokens: 2, experts: 4, used: 3 }).selected]).toEqual([1, 2, 3, 1, 2, 3]);
  });

  it('shares are a softmax of all, of the chosen ones, or that times a scale', () => {
    const logits = Float64Array.of(0.5, 2, -1, 1);
    const shape = { tokens: 1, experts: 4, used: 2 };
    const all = softmax(logits);
    const ofAll = route(logits, shape, { ofAll: true }).shares;
    expect(ofAll[0]).toBeCloseTo(all[1] as number, 14);
    expect(ofAll[1]).toBeCloseTo(all[3] as number, 14);
    const chosen = softmax(Float64Array.of(2, 1));
    const { shares } = route(logits, shape, { scale: 3 });
    expect(shares[0]).toBeCloseTo(3 * (chosen[0] as number), 14);
    expect(shares[1]).toBeCloseTo(3 * (chosen[1] as number), 14);
  });

  it('shares of the chosen sum to one, in falling order', () => {
    const row = fc.float64Array({ minLength: 12, maxLength: 12, min: -50, max: 50, noNaN: true });
    fc.assert(
      fc.property(row, fc.integer({ min: 1, max: 12 }), (logits, used) => {
        const { selected: chosen, shares } = route(logits, { tokens: 1, experts: 12, used });
        expect(new Set(chosen).size).toBe(used);
        expect(shares.reduce((sum, one) => sum + one, 0)).toBeCloseTo(1, 12);
        expect([...shares]).toEqual([...shares].sort((a, b) => b - a));
      }),
    );
  });
});

describe('activations of experts', () => {
  it('silu: as of any gated feed-forward', () => {
    expect(expertActivation(2, 3, 'silu')).toBeCloseTo((2 / (1 + Math.exp(-2))) * 3, 14);
  });

  it('swiglu_oai: the gate from above, up on both sides, and one more than that', () => {
    const open = (gate: number) => gate / (1 + Math.exp(-1.702 * gate));
    expect(expertActivation(1.5, 0.25, 'swiglu_oai')).toBeCloseTo(open(1.5) * 1.25, 14);
    expect(expertActivation(9, 20, 'swiglu_oai')).toBeCloseTo(open(7) * 8, 14);
    expect(expertActivation(-9, -20, 'swiglu_oai')).toBeCloseTo(open(-9) * -6, 14);
  });
});

describe('products with experts', () => {
  it('are those with each expert alone, and their sum goes by the shares', () => {
    const x = Float64Array.of(1, 2, -1, 0.5);
    const weight = Float64Array.of(1, 0, 0, 1, 2, 2, -1, 1, 3, 0, 0, 3);
    const bias = Float64Array.of(0, 0, 10, 20, 0, 1);
    const chosen = [2, 0, 1, 2];
    const got = expertMatmul(x, weight, chosen, { inputs: 2, outputs: 2, used: 2, bias });
    for (const [pair, expert] of chosen.entries()) {
      const row = x.subarray(2 * (pair >> 1), 2 * (pair >> 1) + 2);
      const own = matmul(
        row,
        weight.subarray(4 * expert, 4 * expert + 4),
        { tokens: 1, inputs: 2, outputs: 2 },
        { bias: bias.subarray(2 * expert, 2 * expert + 2) },
      );
      expect(got.slice(2 * pair, 2 * pair + 2)).toEqual(own);
    }
    const paired = expertMatmul(got, weight, chosen, { inputs: 2, outputs: 2, used: 2, paired: true });
    expect(paired.slice(2, 4)).toEqual(got.slice(2, 4)); // expert 0 changes nothing
    const hidden = Float64Array.of(100, 200, 300, 400);
    const shares = Float64Array.of(0.25, 0.75, 0.5, 0.5);
    const sum = expertSum(hidden, got, shares, 2);
    expect(sum[1]).toBeCloseTo(200 + 0.25 * (got[1] as number) + 0.75 * (got[3] as number), 12);
    expect(sum[2]).toBeCloseTo(300 + 0.5 * (got[4] as number) + 0.5 * (got[6] as number), 12);
  });
});
