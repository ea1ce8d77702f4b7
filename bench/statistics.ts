/** Median. @throws Error when there are no values */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) throw new Error('the median of nothing');
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/**
 * 95 % confidence interval of the median from order statistics: the probability that the true median is below the
 * first, or above the second, is at most 1/40 each. With few values, the interval is their range.
 */
export function medianInterval(values: readonly number[]): readonly [least: number, most: number] {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  // Probability that exactly `beyond` values are on one side of the median; `sum` is cumulative.
  let probability = 0.5 ** count;
  let sum = probability;
  let tailCount = 0;
  while (sum <= 0.025 && tailCount < count) {
    probability *= (count - tailCount) / (tailCount + 1);
    tailCount += 1;
    sum += probability;
  }
  const index = Math.max(0, tailCount - 1);
  const [low = Number.NaN, high = Number.NaN] = [sorted[index], sorted[count - 1 - index]];
  return [low, high];
}

/** Rounds to four significant digits; further digits are noise. */
export const roundFigure = (value: number): number => Number(value.toPrecision(4));
