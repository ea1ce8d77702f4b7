import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attention, gelu, layerNorm, pool } from '../../kernels/reference/index.ts';

const finite = { min: -10, max: 10, noNaN: true };

describe('layerNorm', () => {
  it('is the closed form on one row', () => {
    const [weight, bias] = [Float64Array.of(1, 2), Float64Array.of(0, 5)];
    const out = layerNorm(Float64Array.of(1, 5), weight, bias, { rows: 1, cols: 2, eps: 0 });
    expect([...out]).toEqual([-1, 7]);
  });

  it('leaves rows of mean 0 and variance 1, each by itself, whatever was added to all of one', () => {
    fc.assert(
      fc.property(
        fc
          .float64Array({ minLength: 8, maxLength: 8, ...finite })
          .filter((row) => Math.max(...row) - Math.min(...row) > 0.1),
        fc.double(finite),
        (row, shift) => {
          const x = Float64Array.of(...row, ...row.map((value) => value + shift));
          const plain = [new Float64Array(8).fill(1), new Float64Array(8)] as const;
          const out = layerNorm(x, ...plain, { rows: 2, cols: 8, eps: 0 });
          const first = out.slice(0, 8);
          expect(first.reduce((a, b) => a + b, 0)).toBeCloseTo(0, 9);
          expect(first.reduce((a, b) => a + b * b, 0) / 8).toBeCloseTo(1, 9);
          out.slice(8).forEach((value, c) => expect(value).toBeCloseTo(first[c] as number, 6));
        },
      ),
    );
  });

  it('adds eps to the variance', () => {
    const ones = Float64Array.of(1, 1);
    const out = layerNorm(Float64Array.of(-1, 1), ones, new Float64Array(2), { rows: 1, cols: 2, eps: 3 });
    expect([...out]).toEqual([-0.5, 0.5]);
  });
});

describe('gelu', () => {
  it('is x times the normal distribution, by known values of it', () => {
    for (const [x, phi] of [
      [0, 0.5],
      [1, 0.8413447460685429],
      [-1, 0.15865525393145707],
      [2, 0.9772498680518208],
      [3.5, 0.9997673709209645],
      [-4.5, 3.3976731247300535e-6],
      [6, 0.9999999990134123],
    ] as const) {
      expect(gelu(Float64Array.of(x))[0]).toBeCloseTo(x * phi, 13);
    }
  });

  it('goes on smoothly where its two formulas meet', () => {
    const edge = 3 * Math.SQRT2;
    for (const side of [1, -1]) {
      const [below, above] = gelu(Float64Array.of(side * (edge - 1e-9), side * (edge + 1e-9)));
      expect((above as number) - (below as number)).toBeCloseTo(side > 0 ? 2e-9 : 0, 12);
    }
  });
});

describe('pool', () => {
  const x = Float64Array.of(1, 2, 3, 4, 5, 6, 10, 20);
  it('takes the mean, the first or the last row of each sequence', () => {
    expect([...pool(x, [3, 1], 2, 'mean')]).toEqual([3, 4, 10, 20]);
    expect([...pool(x, [3, 1], 2, 'cls')]).toEqual([1, 2, 10, 20]);
    expect([...pool(x, [3, 1], 2, 'last')]).toEqual([5, 6, 10, 20]);
  });

  it('wants as many rows as there are', () => {
    expect(() => pool(x, [3, 2], 2, 'mean')).toThrow(/10.*8/);
  });
});

describe('attention in both directions', () => {
  const shape = { heads: 1, kvHeads: 1, headDim: 1, scale: 1 };
  const values = Float64Array.of(1, 10, 100, 1000, 10000);
  const zeros = new Float64Array(5);
  it('is the mean of all values where all scores are equal', () => {
    const out = attention(zeros, [0, 1, 2, 3, 4], zeros, values, { ...shape, bidirectional: true });
    for (const value of out) expect(value).toBeCloseTo(11111 / 5, 9);
  });

  it('with a window reads so many on either side, the own one among them', () => {
    const out = attention(zeros.subarray(0, 3), [0, 2, 4], zeros, values, {
      ...shape,
      bidirectional: true,
      window: 2,
    }).map((value, index) => value * [2, 3, 2][index]!);
    [11, 1110, 11000].forEach((sum, index) => expect(out[index]).toBeCloseTo(sum, 9));
  });
});
