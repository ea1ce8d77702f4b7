/** The middle of at least one value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) throw new Error('the median of nothing');
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/**
 * In which the true median lies with 95 %: between two of the values in order, so that of each 40 times it lies beyond
 * either of them once at most. Few values tell nothing but their range.
 */
export function medianInterval(values: readonly number[]): readonly [least: number, most: number] {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  // How likely it is that no more than `beyond` of them lie on one side of it.
  let likely = 0.5 ** count;
  let sum = likely;
  let beyond = 0;
  while (sum <= 0.025 && beyond < count) {
    likely *= (count - beyond) / (beyond + 1);
    beyond += 1;
    sum += likely;
  }
  const place = Math.max(0, beyond - 1);
  const [least = Number.NaN, most = Number.NaN] = [sorted[place], sorted[count - 1 - place]];
  return [least, most];
}

/** Four significant digits: what is behind them is noise. */
export const rounded = (value: number): number => Number(value.toPrecision(4));
