import { averageBlockBytes, blockColumns, weightFormats } from '../../../kernels/formats.ts';
import { formatBytes } from '../format-bytes.ts';
import { isFloatType } from '../formats/float-bytes.ts';
import type { ModelFile } from '../formats/model-file.ts';
import { columnsOf, rowsOf } from '../formats/rows.ts';
import type { Graph } from '../graph/graph.ts';
import { quantizeTypes } from '../types.ts';
import { stacksOf } from '../loading/weights.ts';

/** Totals over a model's weight matrices, for estimating its size in another quantization. */
export interface MatrixTotals {
  /** Number of blocks of 32 weights. */
  readonly blocks: number;
  /** The matrices are stored in 16 or 32 bits, so the engine can quantize them while loading. */
  readonly quantizable: boolean;
}

/** Types to suggest, best quality first. */
const smallerTypes = ['Q8_0', 'Q6_K', 'Q5_K', 'Q4_K', 'IQ4_XS', 'Q3_K', 'Q2_K'] as const;

export function matricesOf(file: ModelFile, graph: Graph): MatrixTotals {
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
  { blocks, quantizable }: MatrixTotals,
  { spareBytes, weightBytes }: { spareBytes: number; weightBytes: number },
): string {
  const bytesOf = (type: keyof typeof weightFormats) => blocks * averageBlockBytes(weightFormats[type]);
  const options = smallerTypes.filter((type) => bytesOf(type) < weightBytes);
  const fittingType = options.find((type) => bytesOf(type) <= spareBytes);
  if (fittingType) {
    const ownType = quantizable ? quantizeTypes.find((type) => bytesOf(type) <= spareBytes) : undefined;
    const hint = ownType === undefined ? '' : `, or load this one with --quantize ${ownType.toLowerCase()}`;
    return `in ${fittingType} its weights would take about ${formatBytes(bytesOf(fittingType))} and fit: get the model in ${fittingType}${hint}`;
  }
  const smallestType = options.at(-1);
  if (!smallestType) return 'it is in the smallest quantization already: use a smaller model';
  return `not even ${smallestType} (about ${formatBytes(bytesOf(smallestType))}) would fit, ${formatBytes(bytesOf(smallestType) - spareBytes)} would be missing: use a smaller model`;
}
