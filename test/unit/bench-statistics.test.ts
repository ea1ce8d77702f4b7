import { describe, expect, it } from 'vitest';
import { medianInterval } from '../../bench/statistics.ts';
import { seededRandom } from '../../src/util/random.ts';

describe('the confidence interval of a median', () => {
  it('has the ranks given by tables of the binomial distribution', () => {
    const upTo = (count: number) => Array.from({ length: count }, (_, n) => count - n);
    expect(medianInterval(upTo(10))).toEqual([2, 9]);
    expect(medianInterval(upTo(20))).toEqual([6, 15]);
    expect(medianInterval(upTo(60))).toEqual([22, 39]);
    expect(medianInterval([3, 1, 2])).toEqual([1, 3]);
  });

  it('contains the true median 95 times of 100, however skewed the values are', () => {
    const random = seededRandom(1);
    let covered = 0;
    for (let bench = 0; bench < 2000; bench++) {
      const values = Array.from({ length: 41 }, () => Math.exp(4 * random()));
      const [lower, upper] = medianInterval(values);
      if (lower <= Math.exp(2) && Math.exp(2) <= upper) covered++;
    }
    expect(covered / 2000).toBeGreaterThan(0.94);
    expect(covered / 2000).toBeLessThan(0.99);
  });
});
