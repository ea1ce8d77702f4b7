import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  filteredDistribution,
  gumbel,
  noiseBits,
  penalizedLogits,
  type SamplingRule,
  sampleToken,
  softmax,
} from '../../kernels/reference/index.ts';
import { greedySampling } from '../../src/engine/types.ts';

const nothing = { prompt: [], answer: [] };
const rule = (changes: Partial<SamplingRule>): SamplingRule => ({
  ...greedySampling,
  temperature: 1,
  ...changes,
});
/** Logits whose softmax is the given probabilities. */
const ofProbabilities = (...p: number[]) => Float64Array.from(p, Math.log);
const kept = (p: Float64Array) => [...p.keys()].filter((i) => p[i]! > 0);
const logits = fc.float64Array({ minLength: 1, maxLength: 40, min: -8, max: 8, noNaN: true });
const rules = fc.record({
  temperature: fc.double({ min: 0.1, max: 2, noNaN: true }),
  topK: fc.nat(45),
  topP: fc.double({ min: 0, max: 1, noNaN: true }),
  minP: fc.double({ min: 0, max: 1, noNaN: true }),
});

describe('bias and penalties', () => {
  const start = Float64Array.of(2, -2, 4, 0);

  it('bias comes before the repetition penalty, which divides what is above 0 and multiplies what is below', () => {
    const out = penalizedLogits(start, rule({ logitBias: new Map([[1, 6]]), repetitionPenalty: 2 }), {
      prompt: [0, 1, 1],
      answer: [2, 3],
    });
    expect([...out]).toEqual([1, 2, 2, 0]);
    const below = penalizedLogits(start, rule({ repetitionPenalty: 2 }), { prompt: [1], answer: [] });
    expect([...below]).toEqual([2, -4, 4, 0]);
  });

  it('presence counts once, frequency every time, both over the answer only', () => {
    const out = penalizedLogits(start, rule({ presencePenalty: 0.5, frequencyPenalty: 0.25 }), {
      prompt: [0, 0],
      answer: [2, 2, 3],
    });
    expect([...out]).toEqual([2, -2, 3, -0.75]);
  });

  it('-100 bans a token, 100 forces it, a token outside of the vocabulary is ignored', () => {
    const banned = filteredDistribution(start, rule({ logitBias: new Map([[2, -100]]) }), nothing);
    expect(banned[2]).toBeLessThan(1e-30);
    const forced = rule({
      temperature: 0,
      logitBias: new Map([
        [1, 100],
        [99, 100],
      ]),
    });
    expect(kept(filteredDistribution(start, forced, nothing))).toEqual([1]);
  });
});

describe('filters', () => {
  const p = ofProbabilities(0.1, 0.4, 0.3, 0.2);

  it('temperature 0 is the argmax, the lowest id among equals, whatever the filters', () => {
    const tied = Float64Array.of(1, 5, 5);
    const out = filteredDistribution(tied, rule({ temperature: 0, topK: 2, topP: 0.1 }), nothing);
    expect([...out]).toEqual([0, 1, 0]);
  });

  it('temperature divides the logits', () => {
    const out = filteredDistribution(p, rule({ temperature: 0.5 }), nothing);
    const squares = [0.01, 0.16, 0.09, 0.04].map((v) => v / 0.3);
    for (const [i, value] of out.entries()) expect(value).toBeCloseTo(squares[i]!, 12);
  });

  it('top_k keeps exactly k, the lowest ids among equals, all when 0 or more than there are', () => {
    expect(kept(filteredDistribution(p, rule({ topK: 2 }), nothing))).toEqual([1, 2]);
    expect(kept(filteredDistribution(Float64Array.of(1, 1, 1), rule({ topK: 2 }), nothing))).toEqual([0, 1]);
    for (const topK of [0, 4, 400])
      expect(kept(filteredDistribution(p, rule({ topK }), nothing))).toHaveLength(4);
  });

  it('top_p keeps the smallest set that reaches p, at least one, all at 1', () => {
    expect(kept(filteredDistribution(p, rule({ topP: 0 }), nothing))).toEqual([1]);
    expect(kept(filteredDistribution(p, rule({ topP: 0.39 }), nothing))).toEqual([1]);
    expect(kept(filteredDistribution(p, rule({ topP: 0.41 }), nothing))).toEqual([1, 2]);
    expect(kept(filteredDistribution(p, rule({ topP: 0.69 }), nothing))).toEqual([1, 2]);
    expect(kept(filteredDistribution(p, rule({ topP: 0.71 }), nothing))).toEqual([1, 2, 3]);
    expect(kept(filteredDistribution(p, rule({ topP: 1 }), nothing))).toHaveLength(4);
  });

  it('top_p looks at what top_k left, renormalised', () => {
    // 0.4 of 0.4 + 0.3 is 0.571: enough for 0.55, though it is only 0.4 of the whole.
    expect(kept(filteredDistribution(p, rule({ topK: 2, topP: 0.55 }), nothing))).toEqual([1]);
  });

  it('min_p is relative to the most likely token', () => {
    expect(kept(filteredDistribution(p, rule({ minP: 0.51 }), nothing))).toEqual([1, 2]);
    expect(kept(filteredDistribution(p, rule({ minP: 0.49 }), nothing))).toEqual([1, 2, 3]);
    expect(kept(filteredDistribution(p, rule({ minP: 1 }), nothing))).toEqual([1]);
    expect(kept(filteredDistribution(p, rule({ minP: 0 }), nothing))).toHaveLength(4);
  });

  it('temperature comes before top_p and min_p', () => {
    // At temperature 0.5 the first has 0.533.
    expect(kept(filteredDistribution(p, rule({ temperature: 0.5, topP: 0.5 }), nothing))).toEqual([1]);
    expect(kept(filteredDistribution(p, rule({ temperature: 0.5, minP: 0.5 }), nothing))).toEqual([1, 2]);
  });

  it('is a distribution over a head of the order that keeps ratios, for any rule', () => {
    fc.assert(
      fc.property(logits, rules, (values, changes) => {
        const out = filteredDistribution(values, rule(changes), nothing);
        const whole = softmax(values.map((value) => value / changes.temperature));
        const ids = kept(out);
        expect(out.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 10);
        expect(Math.max(...ids.map((id) => values[id]!))).toBeCloseTo(Math.max(...values), 9);
        if (changes.topK > 0) expect(ids.length).toBeLessThanOrEqual(changes.topK);
        const minKept = Math.min(...ids.map((id) => values[id]!));
        for (const [id, value] of values.entries()) if (value > minKept + 1e-9) expect(ids).toContain(id);
        const mass = ids.reduce((sum, id) => sum + whole[id]!, 0);
        for (const id of ids) expect(out[id]).toBeCloseTo(whole[id]! / mass, 9);
      }),
    );
  });
});

describe('Gumbel noise', () => {
  it('is the documented function of seed, position and token', () => {
    // The same definition in wrapping bigint arithmetic.
    const u32 = (v: bigint) => BigInt.asUintN(32, v);
    const mix = (start: bigint) => {
      let v = u32(start);
      v ^= v >> 16n;
      v = u32(v * 0x7feb352dn);
      v ^= v >> 15n;
      v = u32(v * 0x846ca68bn);
      return v ^ (v >> 16n);
    };
    const u32s = fc.integer({ min: 0, max: 0xffffffff });
    fc.assert(
      fc.property(u32s, u32s, u32s, (seed, position, token) => {
        const h = mix(BigInt(seed) ^ u32(BigInt(position) * 0x9e3779b9n));
        const bits = Number(mix(h ^ u32(BigInt(token) * 0x85ebca6bn)));
        expect(noiseBits(seed, position, token)).toBe(bits);
        // 23 bits, not 24: then f32, which the shader computes in, holds v and 1 - v exactly.
        const v = (Math.floor(bits / 512) + 0.5) / 8388608;
        expect(Math.fround(v)).toBe(v);
        expect(Math.fround(1 - v)).toBe(1 - v);
        expect(gumbel(seed, position, token)).toBeCloseTo(-Math.log(-Math.log(1 - v)), 12);
      }),
    );
  });

  it('has the mean and variance of the standard Gumbel distribution', () => {
    const draws = Float64Array.from({ length: 100_000 }, (_, token) => gumbel(7, 3, token));
    const mean = draws.reduce((sum, g) => sum + g, 0) / draws.length;
    const variance = draws.reduce((sum, g) => sum + (g - mean) ** 2, 0) / draws.length;
    expect(mean).toBeCloseTo(0.5772, 1.6); // standard error 0.004
    expect(Math.abs(variance - Math.PI ** 2 / 6)).toBeLessThan(0.05); // standard error 0.011
  });

  it('bits are even for consecutive tokens, positions and seeds', () => {
    const along: ((n: number) => number)[] = [
      (n) => noiseBits(1, 2, n),
      (n) => noiseBits(1, n, 2),
      (n) => noiseBits(n, 1, 2),
    ];
    for (const bits of along) {
      for (let bit = 0; bit < 32; bit++) {
        let ones = 0;
        for (let n = 0; n < 8192; n++) ones += (bits(n) >>> bit) & 1;
        expect(Math.abs(ones - 4096)).toBeLessThan(5 * 45.3); // five standard deviations
      }
    }
  });
});

describe('drawing by Gumbel-max', () => {
  const values = Float64Array.of(1.2, -0.3, 2, 0.4, -4, 1.9, 0, -1);
  const draws = 20_000;

  /** Pearson's statistic of observed counts against probabilities. */
  function chiSquare(counts: Float64Array, p: Float64Array): number {
    return counts.reduce(
      (sum, n, i) => sum + (p[i]! > 0 ? (n - draws * p[i]!) ** 2 / (draws * p[i]!) : 0),
      0,
    );
  }

  for (const [name, changes] of Object.entries<Partial<SamplingRule>>({
    plain: {},
    'hot, with penalties': { temperature: 1.7, repetitionPenalty: 1.3, presencePenalty: 0.4 },
    filtered: { temperature: 0.8, topK: 6, topP: 0.95, minP: 0.05 },
  })) {
    it(`follows filteredDistribution over positions and over seeds: ${name}`, () => {
      const history = { prompt: [0, 2], answer: [5, 5] };
      const p = filteredDistribution(values, rule(changes), history);
      for (const draw of [
        (n: number) => ({ seed: 11, position: n }),
        (n: number) => ({ seed: n, position: 11 }),
      ]) {
        const counts = new Float64Array(values.length);
        for (let n = 0; n < draws; n++) counts[sampleToken(values, rule(changes), history, draw(n))]! += 1;
        for (const [id, count] of counts.entries()) if (p[id] === 0) expect(count).toBe(0);
        expect(chiSquare(counts, p)).toBeLessThan(24.3); // 7 degrees of freedom, 1 in 1000
      }
    });
  }

  it('the same seed and position draw the same token, temperature 0 the greedy one', () => {
    for (let n = 0; n < 50; n++) {
      const draw = { seed: 5, position: n };
      expect(sampleToken(values, rule({}), nothing, draw)).toBe(sampleToken(values, rule({}), nothing, draw));
      expect(sampleToken(values, rule({ temperature: 0 }), nothing, draw)).toBe(2);
    }
  });
});
