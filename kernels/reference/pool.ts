import { assertLength, type Values } from './vectors.ts';

/**
 * Pools each sequence to one row: the mean of its rows, the first, or the last.
 * @param x [sum of lengths, width], concatenated sequences
 * @returns [lengths.length, width]
 */
export function pool(
  x: Values,
  lengths: readonly number[],
  width: number,
  mode: 'mean' | 'cls' | 'last',
): Float64Array {
  assertLength('pool x', x, lengths.reduce((sum, length) => sum + length, 0) * width);
  const out = new Float64Array(lengths.length * width);
  let first = 0;
  for (const [s, length] of lengths.entries()) {
    const rows = { mean: [first, length], cls: [first, 1], last: [first + length - 1, 1] } as const;
    const [from, count] = rows[mode];
    for (let row = from; row < from + count; row++) {
      for (let c = 0; c < width; c++) out[s * width + c]! += x[row * width + c]! / count;
    }
    first += length;
  }
  return out;
}
