/** A case of a large matrix with fewer rows of it: weights travel to another process, and the oracle reads them all. */
import { weightFormats } from '../../../kernels/formats.ts';
import type { ParityCase } from '../types.ts';

/** The first rows of a product's matrix (of gate and of up), at most so many weights of them; others as they are. */
export function shrunk(one: ParityCase, mostWeights: number): ParityCase {
  const { dims, params, tensors, format } = one;
  const rows = dims['rows'] ?? 0;
  const { quants, scales } = tensors;
  const layout = Object.values(weightFormats).find(({ name }) => name === format);
  if (!(quants instanceof Uint32Array) || !scales || !layout || rows === 0) return one;
  const blocks = dims['blocks'] ?? 0;
  // Two halves: rows of gate, then rows of up.
  const halves = quants.length / (rows * blocks * (layout.quantBytesPerBlock / 4));
  const most = Math.floor(mostWeights / (blocks * 32 * halves));
  // Pairs of rows, because two scales share a word.
  const kept = Math.max(2, most - (most % 2));
  if (kept >= rows || rows % 2 !== 0) return one;
  const cut = (words: Uint32Array<ArrayBuffer>, wordsPerRow: number): Uint32Array<ArrayBuffer> => {
    const part = new Uint32Array(halves * kept * wordsPerRow);
    for (let half = 0; half < halves; half++) {
      const from = half * rows * wordsPerRow;
      part.set(words.subarray(from, from + kept * wordsPerRow), half * kept * wordsPerRow);
    }
    return part;
  };
  const scaleWords = (blocks * layout.scaleBytesPerBlock) / 4;
  return {
    ...one,
    name: `${one.name}, ${kept} of ${rows} rows`,
    dims: { ...dims, rows: kept },
    params: { ...params, rows: kept },
    tensors: {
      ...tensors,
      quants: cut(quants, blocks * (layout.quantBytesPerBlock / 4)),
      ...(scaleWords > 0 && scales instanceof Uint32Array ? { scales: cut(scales, scaleWords) } : {}),
    },
  };
}
