import type { Values } from './vectors.ts';

/**
 * out[i] = x[rows[i]]: selects rows, for example the positions whose logits are needed.
 * @param x [any, width]
 * @returns [rows.length, width]
 */
export function gatherRows(x: Values, rows: ArrayLike<number>, width: number): Float64Array {
  const out = new Float64Array(rows.length * width);
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!;
    if (!Number.isInteger(row) || row < 0 || (row + 1) * width > x.length) {
      throw new RangeError(`gatherRows: expected row indices below ${x.length / width}, got ${row}`);
    }
    out.set(x.subarray(row * width, (row + 1) * width), i * width);
  }
  return out;
}
