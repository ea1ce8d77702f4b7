/** Rows of the weights that are kept as they are in the file, to compare products with the CPU oracle. */
import { dequantizeRows } from '../../../kernels/reference/dequantize.ts';
import type { TensorInfo } from '../formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../formats/rows.ts';
import type { RowSample, SampledRows, WeightPart } from '../loading/weights.ts';
import { seededRandom } from '../../util/random.ts';
import { pickIndexes } from './pick-indexes.ts';

/** How much is compared. `rows`: random rows of each matrix, in addition to the first, the last and those at edges of tiles. */
export interface SampleSize {
  readonly rows: number;
  /** Random rows of each expert. */
  readonly expertRows: number;
  /** Rows, heads and the like of each dispatch, in addition to the first and the last. */
  readonly others: number;
}

export const sampleSizes = {
  sample: { rows: 6, expertRows: 1, others: 2 },
  full: { rows: 120, expertRows: 8, others: 14 },
} as const satisfies Record<string, SampleSize>;

/** Rows of the largest tile of a product. */
const tileRows = 64;
/** Bytes of rows that are kept in all; matrices that are loaded later have none. */
const maxKeptBytes = 256 << 20;

/** Number of distinct token ids that verification feeds to a model. */
const tokenCount = 24;

/** Token ids that a model of `vocabulary` ids is verified with. */
export function verifiedTokens(vocabulary: number, seed: number): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: tokenCount }, () => Math.floor(random() * vocabulary));
}

/**
 * Selects the rows of each matrix. Those of experts are at the same places in every expert, as which ones a token selects is
 * not known.
 * @param tokens ids whose rows of the embedding table are needed
 */
export function sampledRows(
  size: SampleSize,
  seed: number,
  { embedding, tokens }: { embedding: string | undefined; tokens: readonly number[] },
): SampledRows {
  const picked = new Map<string, readonly number[]>();
  let keptBytes = 0;
  const pick = (tensor: TensorInfo): readonly number[] => {
    const rows = rowsOf(tensor);
    // The matrices of gate and up have the same shape, and their rows are needed in pairs.
    const random = seededRandom(seed ^ rows);
    const edge = Math.floor((rows - 1) / tileRows) * tileRows;
    if (tensor.shape.length === 3) {
      const perExpert = tensor.shape[1] as number;
      const within = pickIndexes(perExpert, [0, perExpert - 1], size.expertRows, random);
      return Array.from({ length: tensor.shape[0] as number }, (_, expert) =>
        within.map((row) => expert * perExpert + row),
      ).flat();
    }
    const always = [0, rows - 1, edge, edge - 1, tileRows - 1, ...(tensor.name === embedding ? tokens : [])];
    return pickIndexes(rows, always, size.rows, random);
  };
  return (tensor) => {
    const known = picked.get(tensor.name);
    if (known) return known;
    const rows = pick(tensor);
    keptBytes += rows.length * bytesOfRow(tensor);
    const kept = keptBytes <= maxKeptBytes ? rows : [];
    picked.set(tensor.name, kept);
    return kept;
  };
}

/** Kept rows by the buffer that their part is bound with, decoded when they are first needed. */
export class WeightSamples {
  readonly #parts = new Map<GPUBuffer, WeightPart>();
  readonly #decoded = new Map<RowSample, Float32Array>();

  constructor(parts: Iterable<WeightPart>) {
    for (const part of parts) this.#parts.set(part.quants, part);
  }

  /** The part whose `quants` are bound. */
  partOf(quants: GPUBuffer): WeightPart | undefined {
    return this.#parts.get(quants);
  }

  /** [columns], or undefined for a row that was not kept. */
  row(part: WeightPart, row: number): Float32Array | undefined {
    const sample = part.samples.get(row);
    if (!sample) return undefined;
    let decoded = this.#decoded.get(sample);
    if (!decoded) {
      const { type, bytes, columns } = sample;
      decoded = dequantizeRows(type, bytes, { rows: 1, columns });
      this.#decoded.set(sample, decoded);
    }
    return decoded;
  }

  /** Frees the kept rows. */
  clear(): void {
    for (const part of this.#parts.values()) part.samples.clear();
    this.#decoded.clear();
  }
}
