/** Truncates the weight matrix of a case: weights are sent to the child process, and the oracle reads all of them. */
import { quantBytes, scaleBytes, weightFormat } from '../../../kernels/formats.ts';
import type { ParityCase } from '../types.ts';

/**
 * Keeps the first rows of a product's matrix (of both gate and up), at most `maxWeights` weights. Other cases are
 * unchanged.
 */
export function shrunk(one: ParityCase, mostWeights: number): ParityCase {
  const { dims, params, tensors, format } = one;
  const rows = dims['rows'] ?? 0;
  const { quants, scales } = tensors;
  if (!(quants instanceof Uint32Array) || !(scales instanceof Uint32Array) || rows % 2 !== 0 || rows === 0)
    return one;
  const blocks = dims['blocks'] ?? 0;
  const layout = weightFormat(format ?? '');
  // In pairs of rows, because two blocks can share a word of scales or quants.
  const quantWords = quantBytes(layout, { rows: 2, blocks }) / 4;
  const scaleWords = scaleBytes(layout, { rows: 2, blocks }) / 4;
  // A gated matrix has two halves: the rows of gate, then the rows of up.
  const halves = quants.length / ((rows / 2) * quantWords);
  const pairs = Math.max(1, Math.floor(mostWeights / (2 * blocks * 32 * halves)));
  const kept = 2 * pairs;
  if (kept >= rows) return one;
  const cut = (words: Uint32Array<ArrayBuffer>, wordsPerPair: number): Uint32Array<ArrayBuffer> => {
    const part = new Uint32Array(halves * pairs * wordsPerPair);
    for (let half = 0; half < halves; half++) {
      const from = (half * rows * wordsPerPair) / 2;
      part.set(words.subarray(from, from + pairs * wordsPerPair), half * pairs * wordsPerPair);
    }
    return part;
  };
  return {
    ...one,
    name: `${one.name}, ${kept} of ${rows} rows`,
    dims: { ...dims, rows: kept },
    params: { ...params, rows: kept },
    tensors: {
      ...tensors,
      quants: cut(quants, quantWords),
      ...(scaleWords > 0 ? { scales: cut(scales, scaleWords) } : {}),
    },
  };
}
