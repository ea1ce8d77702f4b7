/** Truncates the weight matrix of a case: weights are sent to the child process, and the oracle reads all of them. */
import { quantSizeBytes, scaleSizeBytes, weightFormat } from '../../../kernels/formats.ts';
import type { ParityCase } from '../types.ts';

/**
 * Keeps the first rows of a product's matrix (of both gate and up), at most `maxWeights` weights. Other cases are
 * unchanged.
 */
export function truncateWeights(parityCase: ParityCase, maxWeights: number): ParityCase {
  const { dims, params, tensors, format } = parityCase;
  const rows = dims['rows'] ?? 0;
  const { quants, scales } = tensors;
  if (!(quants instanceof Uint32Array) || !(scales instanceof Uint32Array) || rows % 2 !== 0 || rows === 0)
    return parityCase;
  const blocks = dims['blocks'] ?? 0;
  const layout = weightFormat(format ?? '');
  // In pairs of rows, because two blocks can share a word of scales or quants.
  const quantWords = quantSizeBytes(layout, { rows: 2, blocks }) / 4;
  const scaleWords = scaleSizeBytes(layout, { rows: 2, blocks }) / 4;
  // A gated matrix has two halves: the rows of gate, then the rows of up.
  const halves = quants.length / ((rows / 2) * quantWords);
  const pairs = Math.max(1, Math.floor(maxWeights / (2 * blocks * 32 * halves)));
  const keptRows = 2 * pairs;
  if (keptRows >= rows) return parityCase;
  const truncate = (words: Uint32Array<ArrayBuffer>, wordsPerPair: number): Uint32Array<ArrayBuffer> => {
    const part = new Uint32Array(halves * pairs * wordsPerPair);
    for (let half = 0; half < halves; half++) {
      const from = (half * rows * wordsPerPair) / 2;
      part.set(words.subarray(from, from + pairs * wordsPerPair), half * pairs * wordsPerPair);
    }
    return part;
  };
  return {
    ...parityCase,
    name: `${parityCase.name}, ${keptRows} of ${rows} rows`,
    dims: { ...dims, rows: keptRows },
    params: { ...params, rows: keptRows },
    tensors: {
      ...tensors,
      quants: truncate(quants, quantWords),
      ...(scaleWords > 0 ? { scales: truncate(scales, scaleWords) } : {}),
    },
  };
}
