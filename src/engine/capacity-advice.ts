import { blockBytes, blockColumns, weightFormats } from '../../kernels/formats.ts';
import { formatBytes } from './format-bytes.ts';
import { isFloatType } from './formats/float-bytes.ts';
import type { ModelFile } from './formats/model-file.ts';
import { columnsOf, rowsOf } from './formats/rows.ts';
import type { Graph } from './graph.ts';
import { quantizeTypes } from './types.ts';
import { stacksOf } from './weights.ts';

/** Totals over a model's weight matrices, for estimating its size in another quantization. */
export interface Matrices {
  /** Number of blocks of 32 weights. */
  readonly blocks: number;
  /** The matrices are stored in 16 or 32 bits, so the engine can quantize them while loading. */
  readonly quantizable: boolean;
}

/** Types to suggest, best quality first. */
const smaller = ['Q8_0', 'Q6_K', 'Q5_K', 'Q4_K', 'IQ4_XS', 'Q3_K', 'Q2_K'] as const;

export function matricesOf(file: ModelFile, graph: Graph): Matrices {
  let blocks = 0;
  let quantizable = true;
  for (const name of stacksOf(graph).flat()) {
    const tensor = file.tensors.get(name);
    if (tensor) blocks += rowsOf(tensor) * Math.ceil(columnsOf(tensor) / blockColumns);
    quantizable &&= tensor !== undefined && isFloatType(tensor.type);
  }
  return { blocks, quantizable };
}

/**
 * For a model that does not fit: names the best quantization that would fit, or says that none does.
 * @param spareBytes bytes available for weights
 * @param weightBytes bytes of the weights as they are
 */
export function adviseQuantization(
  { blocks, quantizable }: Matrices,
  { spare, weightBytes }: { spare: number; weightBytes: number },
): string {
  const bytesOf = (type: keyof typeof weightFormats) => blocks * blockBytes(weightFormats[type]);
  const options = smaller.filter((type) => bytesOf(type) < weightBytes);
  const fits = options.find((type) => bytesOf(type) <= spare);
  if (fits) {
    const own = quantizable ? quantizeTypes.find((type) => bytesOf(type) <= spare) : undefined;
    const how = own === undefined ? '' : `, or load this one with --quantize ${own.toLowerCase()}`;
    return `in ${fits} its weights would take about ${formatBytes(bytesOf(fits))} and fit: get the model in ${fits}${how}`;
  }
  const least = options.at(-1);
  if (!least) return 'it is in the smallest quantization already: use a smaller model';
  return `not even ${least} (about ${formatBytes(bytesOf(least))}) would fit, ${formatBytes(bytesOf(least) - spare)} would be missing: use a smaller model`;
}
