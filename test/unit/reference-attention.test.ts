import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  applyRope,
  attention,
  llama3FreqFactors,
  type Rope,
  ropeFrequencies,
} from '../../kernels/reference/index.ts';

const vector = (length: number) =>
  fc.float64Array({ minLength: length, maxLength: length, min: -3, max: 3, noNaN: true });
const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const styles = ['interleaved', 'neox'] as const;

describe('RoPE', () => {
  const headDim = 8;
  const one = { heads: 1, headDim };

  it('turns the pair of each style by position * theta^(-2i/rotaryDim)', () => {
    const x = Float64Array.of(1, 0, 0, 0, 0, 0, 0, 0); // element 0 belongs to pair 0 in both
    for (const style of styles) {
      const out = applyRope(x, [2], one, { style, theta: 100, rotaryDim: 8 });
      expect(out[0]).toBeCloseTo(Math.cos(2), 14);
      expect(out[style === 'interleaved' ? 1 : 4]).toBeCloseTo(Math.sin(2), 14);
    }
    const y = Float64Array.of(0, 0, 1, 0, 0, 0, 0, 0); // element 2: pair 1 interleaved, pair 2 neox
    const interleaved = applyRope(y, [2], one, { style: 'interleaved', theta: 100, rotaryDim: 8 });
    const neox = applyRope(y, [2], one, { style: 'neox', theta: 100, rotaryDim: 8 });
    expect(interleaved[3]).toBeCloseTo(Math.sin(2 * 100 ** (-2 / 8)), 14);
    expect(neox[6]).toBeCloseTo(Math.sin(2 * 100 ** (-4 / 8)), 14);
  });

  it('keeps norms, and scores depend on the distance only', () => {
    const cases = fc.record({
      style: fc.constantFrom(...styles),
      q: vector(headDim),
      k: vector(headDim),
      at: fc.nat(200),
      distance: fc.nat(50),
      shift: fc.nat(500),
    });
    fc.assert(
      fc.property(cases, ({ style, q, k, at, distance, shift }) => {
        const rope: Rope = { style, theta: 10000, rotaryDim: headDim };
        const turned = applyRope(q, [at], one, rope);
        expect(dot(turned, turned)).toBeCloseTo(dot(q, q), 9);
        const score = (from: number) =>
          dot(applyRope(q, [from + distance], one, rope), applyRope(k, [from], one, rope));
        expect(score(at)).toBeCloseTo(score(at + shift), 9);
      }),
    );
  });

  it('the two styles are one up to the order of the elements', () => {
    fc.assert(
      fc.property(vector(headDim), fc.nat(1000), (x, position) => {
        const asNeox = (v: Float64Array) =>
          Float64Array.from(v, (_, i) => v[i < 4 ? 2 * i : 2 * (i - 4) + 1]!);
        const rope = { theta: 10000, rotaryDim: headDim };
        const left = asNeox(applyRope(x, [position], one, { ...rope, style: 'interleaved' }));
        expect(left).toEqual(applyRope(asNeox(x), [position], one, { ...rope, style: 'neox' }));
      }),
    );
  });

  it('a partial rotary dimension leaves the rest of the head alone', () => {
    const x = Float64Array.from({ length: 16 }, (_, i) => i + 1);
    for (const style of styles) {
      const out = applyRope(x, [3], { heads: 2, headDim }, { style, theta: 10000, rotaryDim: 4 });
      expect([...out.slice(4, 8), ...out.slice(12)]).toEqual([5, 6, 7, 8, 13, 14, 15, 16]);
      expect(out[0]).not.toBe(1);
      expect(out[8]).not.toBe(9);
    }
  });

  it('linear scaling divides the position, frequency factors divide their frequency', () => {
    const x = Float64Array.from({ length: headDim }, (_, i) => i - 3);
    const rope: Rope = { style: 'neox', theta: 10000, rotaryDim: headDim };
    expect(applyRope(x, [8], one, { ...rope, linearFactor: 4 })).toEqual(applyRope(x, [2], one, rope));
    const plain = ropeFrequencies(rope);
    const scaled = ropeFrequencies({ ...rope, freqFactors: Float64Array.of(1, 2, 4, 8) });
    expect([...scaled]).toEqual([1, 2, 4, 8].map((factor, i) => plain[i]! / factor));
  });

  it('Llama 3 factors: 1 for short waves, the factor for long ones, rising between', () => {
    const factors = llama3FreqFactors({
      theta: 500000,
      rotaryDim: 64,
      factor: 32,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalContext: 8192,
    });
    expect(factors).toHaveLength(32);
    expect(factors[0]).toBe(1);
    expect(factors[31]).toBe(32);
    for (let i = 1; i < 32; i++) expect(factors[i]).toBeGreaterThanOrEqual(factors[i - 1]!);
    // One in the blend, by the definition on frequencies: (1-s)*f/factor + s*f.
    const blended = [...factors.keys()].filter((i) => factors[i]! > 1 && factors[i]! < 32);
    expect(blended.length).toBeGreaterThan(0);
    for (const i of blended) {
      const frequency = 500000 ** ((-2 * i) / 64);
      const smooth = ((8192 * frequency) / (2 * Math.PI) - 1) / 3;
      expect(frequency / factors[i]!).toBeCloseTo(((1 - smooth) * frequency) / 32 + smooth * frequency, 14);
    }
  });

  it('an odd or too large rotary dimension is refused', () => {
    for (const rotaryDim of [3, 10]) {
      expect(() =>
        applyRope(new Float64Array(8), [0], one, { style: 'neox', theta: 1e4, rotaryDim }),
      ).toThrow(`up to headDim 8, got ${rotaryDim}`);
    }
  });
});

describe('attention', () => {
  it('with one key returns its value, whatever the query', () => {
    fc.assert(
      fc.property(vector(8), vector(4), vector(4), (q, k, v) => {
        const out = attention(q, [0], k, v, { heads: 2, kvHeads: 1, headDim: 4, scale: 0.5 });
        for (const [i, value] of out.entries()) expect(value).toBeCloseTo(v[i % 4]!, 12);
      }),
    );
  });

  it('with equal keys is the mean of the values up to the position', () => {
    const keys = new Float64Array(6).fill(1);
    const values = Float64Array.of(1, 10, 2, 20, 6, 60);
    const shape = { heads: 1, kvHeads: 1, headDim: 2, scale: 1 };
    const out = attention(Float64Array.of(1, 2, 3, 4), [1, 2], keys, values, shape);
    for (const [i, expected] of [1.5, 15, 3, 30].entries()) expect(out[i]).toBeCloseTo(expected, 12);
  });

  it('weighs two keys by the softmax of their scaled scores', () => {
    const out = attention(Float64Array.of(2), [1], Float64Array.of(0, 1), Float64Array.of(0, 1), {
      heads: 1,
      kvHeads: 1,
      headDim: 1,
      scale: 0.25,
    });
    expect(out[0]).toBeCloseTo(1 / (1 + Math.exp(-0.5)), 14);
  });

  it('later keys and values change nothing', () => {
    fc.assert(
      fc.property(vector(2), vector(8), vector(8), vector(4), (q, k, v, later) => {
        const shape = { heads: 1, kvHeads: 1, headDim: 2, scale: 0.7 };
        const changed = (cache: Float64Array) => Float64Array.of(...cache.slice(0, 4), ...later);
        expect(attention(q, [1], changed(k), changed(v), shape)).toEqual(attention(q, [1], k, v, shape));
      }),
    );
  });

  it('groups of query heads share a key/value head, neighbours together', () => {
    const values = Float64Array.of(7, 9); // one position, two kv heads of one element
    const shape = { heads: 4, kvHeads: 2, headDim: 1, scale: 1 };
    expect([...attention(new Float64Array(4), [0], new Float64Array(2), values, shape)]).toEqual([
      7, 7, 9, 9,
    ]);
  });

  it('stays finite with huge scores', () => {
    const shape = { heads: 1, kvHeads: 1, headDim: 1, scale: 1 };
    const out = attention(
      Float64Array.of(1e4),
      [1],
      Float64Array.of(1e4, -1e4),
      Float64Array.of(3, 5),
      shape,
    );
    expect(out[0]).toBe(3);
  });

  it('a position beyond the cache and heads that do not divide are refused', () => {
    const shape = { heads: 1, kvHeads: 1, headDim: 1, scale: 1 };
    const two = new Float64Array(2);
    expect(() => attention(Float64Array.of(1), [2], two, two, shape)).toThrow(
      'expected positions below 2, got 2',
    );
    expect(() => attention(new Float64Array(3), [0], two, two, { ...shape, heads: 3, kvHeads: 2 })).toThrow(
      'cannot share',
    );
  });
});
