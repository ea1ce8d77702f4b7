/** The decision whether sampled results of a kernel are those of correct rounding. */
import { describe, expect, it } from 'vitest';
import { KernelResults, type Precision } from '../../src/engine/verification/judge.ts';
import { seededRandom } from '../../src/util/random.ts';

/** Results with normal errors of the expected size, changed by `change`. */
function results(
  precision: Precision,
  relativeError: number,
  change: (value: number, index: number) => number = (value) => value,
  count = 400,
): KernelResults {
  const random = seededRandom(7);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const all = new KernelResults(precision);
  for (let index = 0; index < count; index++) {
    const expected = normal();
    const got = change(expected, index) + normal() * relativeError;
    all.add(`dispatch ${index}`, { got, expected, error: relativeError });
  }
  return all;
}

describe('a kernel', () => {
  const precisions = [
    ['f32', 1e-6],
    ['f16', 4e-4],
    ['16-bit blocks', 2e-5],
    ['8-bit blocks', 5e-3],
  ] as const;

  it.each(precisions)('is correct with errors of rounding: %s', (precision, error) => {
    expect(results(precision, error).fault()).toBeUndefined();
  });

  it.each(precisions)(
    'is wrong when all results are 1 %% too large, within the largest error or not: %s',
    (precision, error) => {
      const all = results(precision, error, (value) => 1.01 * value);
      expect(all.fault()?.reason).toMatch(/too large in the mean|instead of/);
      expect(all.summary().drift).toBeCloseTo(0.01, 3);
    },
  );

  it.each(precisions)('is wrong when one result of many is another one: %s', (precision, error) => {
    const all = results(precision, error, (value, index) => (index === 57 ? value + 1 : value));
    expect(all.fault()).toMatchObject({ at: 'dispatch 57', reason: expect.stringMatching(/instead of/) });
  });

  it('is wrong when errors are larger than rounding explains, but small', () => {
    const all = new KernelResults('f16');
    const random = seededRandom(3);
    for (let index = 0; index < 100; index++)
      all.add('d', { got: 1 + (random() < 0.5 ? -1 : 1) * 0.004, expected: 1, error: 0.001 });
    expect(all.fault()?.reason).toMatch(/^errors are 4.0 times as large as rounding explains$/);
  });

  it('may give NaN and infinity only where the oracle does', () => {
    const fault = (got: number, expected: number) => {
      const one = new KernelResults('f32');
      one.add('d', { got, expected, error: 1 });
      return one.fault()?.reason;
    };
    expect(fault(Number.NaN, Number.NaN)).toBeUndefined();
    expect(fault(Number.NaN, 1)).toBe('NaN instead of 1');
    expect(fault(0, Number.NaN)).toBe('0 instead of NaN');
    expect(fault(Number.POSITIVE_INFINITY, 1)).toBe('Infinity instead of 1');
  });

  it('that only adds to what was there is judged by what it adds', () => {
    const all = new KernelResults('f32');
    for (let index = 0; index < 100; index++)
      all.add('d', { got: 1000 + 1.01e-3, expected: 1000 + 1e-3, computed: 1e-3, error: 1e-4 });
    expect(all.fault()?.reason).toBeUndefined();
    const exact = new KernelResults('f32');
    for (let index = 0; index < 100; index++)
      exact.add('d', { got: 10 + 1.01, expected: 11, computed: 1, error: 2e-3 });
    expect(exact.fault()?.reason).toBe('results are 1.0 % too large in the mean');
  });
});
