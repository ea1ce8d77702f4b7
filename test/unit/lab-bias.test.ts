/** Systematic errors of kernels: found where they are larger than accepted, and not seen in rounding. */
import { describe, expect, it } from 'vitest';
import { BiasMeter, biasOf } from '../../src/lab/gate/bias.ts';
import { seededRandom } from '../../src/util/random.ts';

/** Codes of findings about 12 cases of 64 to 4,096 elements. */
function found(
  seed: number,
  exactness: 'f32' | 'f16' | 'quantised' | 'exact',
  change: (value: number, noise: () => number) => number,
  scale = 1,
): string[] {
  const random = seededRandom(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const meter = new BiasMeter();
  for (let n = 0; n < 12; n++) {
    // Biases are relative, so any magnitude will do.
    const magnitude = 10 ** (6 * random() - 3);
    const values = Float64Array.from({ length: 64 << (n >> 1) }, () => magnitude * normal());
    const got = values.map((value) => change(value / magnitude, normal) * magnitude);
    meter.add('y', exactness, biasOf({ values }, got));
  }
  return meter.findings(scale).map(({ message }) => message);
}
const seeds = Array.from({ length: 100 }, (_, seed) => seed);

describe('systematic errors', () => {
  it('are not seen in exact results, in rounding to 8 bits, and in rounding to f16', () => {
    for (const seed of seeds) {
      expect(found(seed, 'f32', (value) => value)).toEqual([]);
      expect(found(seed, 'quantised', (value, noise) => value + 0.01 * noise())).toEqual([]);
      expect(found(seed, 'f16', (value, noise) => value * (1 + 3e-4 * noise()))).toEqual([]);
    }
  });

  it('are found as a factor, within the tolerated error, with their interval', () => {
    for (const seed of seeds) {
      const [message, ...more] = found(seed, 'quantised', (value, noise) => 1.022 * value + 0.003 * noise());
      expect(more).toEqual([]);
      expect(message).toMatch(
        /^the results in y are too large by the factor 0\.02\d* \(95% interval ± [\d.e-]+, over 12 cases\); at most 0\.004 is accepted/,
      );
      expect(found(seed, 'f32', (value) => value * (1 - 2e-4))).toHaveLength(1);
      expect(found(seed, 'f16', (value) => value * 1.004)).toHaveLength(1);
    }
  });

  it('are found as an offset', () => {
    for (const seed of seeds) {
      const [message] = found(seed, 'quantised', (value, noise) => value - 0.02 + 0.003 * noise());
      expect(message).toMatch(/off by the same amount, relative to their RMS: -0\.0/);
    }
  });

  it('follow the scale of the tolerance, and do not exist for ids', () => {
    const change = (value: number) => value * 1.003;
    expect(found(1, 'quantised', change)).toEqual([]);
    expect(found(1, 'quantised', change, 0.1)).toHaveLength(1);
    expect(found(1, 'f16', change, 10)).toEqual([]);
    expect(found(1, 'exact', change)).toEqual([]);
  });

  it('need elements that are compared, and finite', () => {
    const values = Float64Array.from({ length: 40 }, (_, i) => i);
    const preserved = new Uint8Array(40).fill(1, 10);
    expect(biasOf({ values, preserved }, values)).toBeUndefined();
    expect(biasOf({ values: new Float64Array(40) }, values)).toBeUndefined();
    const got = values.map((value, i) => (i < 10 ? Number.NaN : value * 1.5));
    expect(biasOf({ values }, got)?.gain).toBeCloseTo(0.5, 12);
  });
});
