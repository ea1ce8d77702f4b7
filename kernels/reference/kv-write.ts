import { roundToF16 } from './half.ts';
import { assertLength, type Values } from './vectors.ts';

/**
 * Copies the cache and writes rows[t] to row slots[t]. If a slot occurs twice, the last row wins.
 * @param cache [any, width], width = kvHeads * headDim
 * @param rows [slots.length, width]
 * @param stored element type of the cache
 */
export function kvWrite(
  cache: Values,
  rows: Values,
  slots: ArrayLike<number>,
  width: number,
  stored: 'F32' | 'F16',
): Float64Array {
  assertLength('kvWrite rows', rows, slots.length * width);
  const round = stored === 'F16' ? roundToF16 : Math.fround;
  const out = Float64Array.from(cache);
  for (let t = 0; t < slots.length; t++) {
    const slot = slots[t]!;
    if (!Number.isInteger(slot) || slot < 0 || (slot + 1) * width > cache.length) {
      throw new RangeError(`kvWrite: expected slot indices below ${cache.length / width}, got ${slot}`);
    }
    for (let c = 0; c < width; c++) out[slot * width + c] = round(rows[t * width + c]!);
  }
  return out;
}
