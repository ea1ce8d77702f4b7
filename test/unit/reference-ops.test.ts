import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  argmax,
  embed,
  gatedActivation,
  gatherRows,
  kvWrite,
  logSumExp,
  matmul,
  rmsNorm,
  roundToF16,
  softmax,
} from '../../kernels/reference/index.ts';

const vector = (length: number) =>
  fc.float64Array({ minLength: length, maxLength: length, min: -10, max: 10, noNaN: true });

describe('rmsNorm', () => {
  it('is the closed form on one row', () => {
    const out = rmsNorm(Float64Array.of(3, 4), Float64Array.of(1, 2), { rows: 1, cols: 2, eps: 0 });
    const rms = Math.sqrt((9 + 16) / 2);
    expect(out[0]).toBeCloseTo(3 / rms, 14);
    expect(out[1]).toBeCloseTo(8 / rms, 14);
  });

  it('leaves rows of mean square 1, each row by itself, and zeros stay zero', () => {
    const x = Float64Array.of(1, -2, 3, 0, 0, 0, 1000, 1, 1);
    const out = rmsNorm(x, Float64Array.of(1, 1, 1), { rows: 3, cols: 3, eps: 1e-12 });
    const meanSquare = (row: number) =>
      out.slice(row * 3, row * 3 + 3).reduce((sum, value) => sum + value ** 2, 0) / 3;
    expect(meanSquare(0)).toBeCloseTo(1, 10);
    expect(meanSquare(1)).toBe(0);
    expect(meanSquare(2)).toBeCloseTo(1, 10);
  });

  it('adds eps to the mean, not to the sum', () => {
    const out = rmsNorm(Float64Array.of(1, 1, 1, 1), new Float64Array(4).fill(1), {
      rows: 1,
      cols: 4,
      eps: 3,
    });
    expect(out[0]).toBeCloseTo(0.5, 14);
  });
});

describe('matmul', () => {
  const x = Float64Array.of(1, 2, 3, 4, 5, 6); // [2, 3]
  const weight = Float64Array.of(1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1); // [4, 3]
  const shape = { tokens: 2, inputs: 3, outputs: 4 };

  it('multiplies by the transpose of the weight', () => {
    expect([...matmul(x, weight, shape)]).toEqual([1, 2, 3, 6, 4, 5, 6, 15]);
  });

  it('adds bias to every token and residual to its own', () => {
    const bias = Float64Array.of(10, 20, 30, 40);
    const residual = Float64Array.of(1, 1, 1, 1, 2, 2, 2, 2);
    expect([...matmul(x, weight, shape, { bias, residual })]).toEqual([12, 23, 34, 47, 16, 27, 38, 57]);
  });

  it('is linear in x over random shapes', () => {
    const shapes = fc.record({
      tokens: fc.integer({ min: 1, max: 4 }),
      inputs: fc.integer({ min: 1, max: 57 }),
      outputs: fc.integer({ min: 1, max: 9 }),
    });
    const cases = shapes.chain((s) =>
      fc.tuple(
        fc.constant(s),
        vector(s.tokens * s.inputs),
        vector(s.tokens * s.inputs),
        vector(s.outputs * s.inputs),
      ),
    );
    fc.assert(
      fc.property(cases, ([s, a, b, w]) => {
        const together = matmul(
          a.map((value, i) => value + 2 * b[i]!),
          w,
          s,
        );
        const ones = matmul(a, w, s);
        const twos = matmul(b, w, s);
        for (const [i, value] of together.entries()) expect(value).toBeCloseTo(ones[i]! + 2 * twos[i]!, 8);
      }),
    );
  });

  it('accumulates in float64: a float32 sum would lose the small addends', () => {
    const inputs = 4097;
    const ones = new Float32Array(inputs).fill(1);
    const w = new Float32Array(inputs).fill(2 ** -13);
    w[0] = 4096;
    expect(matmul(ones, w, { tokens: 1, inputs, outputs: 1 })[0]).toBe(4096.5);
  });

  it('refuses data that does not fit its shape', () => {
    expect(() => matmul(x, weight, { ...shape, tokens: 3 })).toThrow(/matmul x: expected \d+ values, got 6/);
  });
});

describe('rows', () => {
  const table = Float64Array.of(0, 1, 10, 11, 20, 21);

  it('embed and gatherRows pick rows in the order asked for, twice if so', () => {
    expect([...embed([2, 0, 2], table, 2)]).toEqual([20, 21, 0, 1, 20, 21]);
    expect([...gatherRows(table, Uint32Array.of(1), 2)]).toEqual([10, 11]);
  });

  it('a row outside of the table is refused', () => {
    for (const row of [3, -1, 0.5]) expect(() => gatherRows(table, [row], 2)).toThrow(RangeError);
  });

  it('kvWrite replaces its slots only, rounded to what the cache stores', () => {
    const rows = Float64Array.of(0.1, 0.2, 0.3, 0.4);
    const f16 = kvWrite(table, rows, [2, 0], 2, 'F16');
    expect([...f16]).toEqual([0.3, 0.4, 10, 11, 0.1, 0.2].map((v) => (v < 1 ? roundToF16(v) : v)));
    expect(kvWrite(table, rows, [2, 0], 2, 'F32')[4]).toBe(Math.fround(0.1));
    expect(table[0]).toBe(0);
    expect(() => kvWrite(table, rows, [0, 3], 2, 'F32')).toThrow('got 3');
  });
});

describe('gatedActivation', () => {
  it('silu has its known values', () => {
    const out = gatedActivation(Float64Array.of(0, 1, -1, 1000, -1000), Float64Array.of(5, 2, 2, 1, 1));
    expect(out[0]).toBe(0);
    expect(out[1]).toBeCloseTo(2 * 0.7310585786300049, 14);
    expect(out[2]).toBeCloseTo(2 * -0.2689414213699951, 14);
    expect(out[3]).toBe(1000);
    expect(Math.abs(out[4]!)).toBe(0);
  });

  it('gelu_tanh has its known values and x = gelu(x) - gelu(-x)', () => {
    expect(gatedActivation(Float64Array.of(1), Float64Array.of(1), 'gelu_tanh')[0]).toBeCloseTo(0.841192, 6);
    fc.assert(
      fc.property(fc.double({ min: -20, max: 20, noNaN: true }), (x) => {
        const [plus, minus] = gatedActivation(Float64Array.of(x, -x), Float64Array.of(1, 1), 'gelu_tanh');
        expect(plus! - minus!).toBeCloseTo(x, 10);
      }),
    );
  });
});

describe('softmax', () => {
  it('sums to 1, keeps the order and ignores a common offset', () => {
    fc.assert(
      fc.property(vector(7), fc.double({ min: -1e4, max: 1e4, noNaN: true }), (values, offset) => {
        const p = softmax(values);
        const shifted = softmax(values.map((value) => value + offset));
        expect(p.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 12);
        for (const [i, value] of p.entries()) {
          expect(shifted[i]).toBeCloseTo(value, 9);
          for (const [j, other] of p.entries())
            if (values[i]! > values[j]!) expect(value).toBeGreaterThanOrEqual(other);
        }
      }),
    );
  });

  it('takes -Infinity as probability 0 and large logits without overflow', () => {
    expect([...softmax(Float64Array.of(-Infinity, 1000, 1000))]).toEqual([0, 0.5, 0.5]);
    expect(logSumExp(Float64Array.of(1000, 1000))).toBeCloseTo(1000 + Math.LN2, 10);
    expect(logSumExp(Float64Array.of(-Infinity))).toBe(-Infinity);
  });

  it('argmax takes the lowest index among equals', () => {
    expect(argmax(Float64Array.of(1, 3, 3, 2))).toBe(1);
  });
});
