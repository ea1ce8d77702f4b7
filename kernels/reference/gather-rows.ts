import type { Values } from './vectors.ts';

/**
 * out[i] = x[rows[i]]: picks the positions whose logits are wanted.
 * @param x [any, width]
 * @returns [rows.length, width]
 */
export function gatherRows(x: Values, rows: ArrayLike<number>, width: number): Float64Array {
  const out = new Float64Array(rows.length * width);
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!;
    if (!Number.isInteger(row) || row < 0 || (row + 1) * width > x.length) {
      throw new RangeError(`row ${row} is outside of the ${x.length / width} rows`);
    }
    out.set(x.subarray(row * width, (row + 1) * width), i * width);
  }
  return out;
}
