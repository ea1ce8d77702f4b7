/**
 * Converts weights from file encoding to GPU layout. The layout's bit fields are described in
 * `wgsl/lib/weight_*.wgsl`.
 */
import { blockColumns, scaleSizeBytes, type WeightFormat, weightFormats } from '../../../kernels/formats.ts';
import { type TensorType, tensorTypes } from '../formats/model-file.ts';
import {
  packMxfp4,
  packQ4,
  packQ5,
  packQ5WithMinimum,
  packQ8,
  packWordThenNibbles,
} from './repack/blocks-of-32.ts';
import { packIq4Xs } from './repack/iq4-xs.ts';
import { packQ2K, packQ3K, packQ4K, packQ5K, packQ6K } from './repack/k-quants.ts';
import { packMlcQ3 } from './repack/mlc-q3.ts';
import type { Packer } from './repack/packer.ts';

const packers: Readonly<Partial<Record<TensorType, Packer>>> = {
  Q8_0: packQ8,
  Q4_0: packQ4,
  Q4_1: packWordThenNibbles,
  Q5_0: packQ5,
  Q5_1: packQ5WithMinimum,
  Q2_K: packQ2K,
  Q3_K: packQ3K,
  Q4_K: packQ4K,
  Q5_K: packQ5K,
  Q6_K: packQ6K,
  IQ4_NL: packQ4,
  IQ4_XS: packIq4Xs,
  MXFP4: packMxfp4,
  MLC_Q4F32: packWordThenNibbles,
  MLC_Q3F16: packMlcQ3,
};

export interface Repacked {
  readonly quants: Uint8Array | Uint32Array;
  /** Whole groups of scales; absent when the format has none. */
  readonly scales?: Uint32Array<ArrayBuffer>;
}

/** Reusable buffers for repacking: allocating new memory would cost more than the repacking itself. */
export class RepackBuffers {
  #quants = new ArrayBuffer(0);
  #scales = new ArrayBuffer(0);

  /** Returns zeroed words, reusing the previous buffer. */
  quants(words: number): Uint32Array<ArrayBuffer> {
    if (this.#quants.byteLength < 4 * words) this.#quants = allocateWords(words);
    return new Uint32Array(this.#quants, 0, words).fill(0);
  }

  /** Returns zeroed words, reusing the previous buffer. */
  scales(words: number): Uint32Array<ArrayBuffer> {
    if (this.#scales.byteLength < 4 * words) this.#scales = allocateWords(words);
    return new Uint32Array(this.#scales, 0, words).fill(0);
  }
}

/** Packers also view it as 8-byte words. */
const allocateWords = (words: number): ArrayBuffer => new ArrayBuffer(Math.ceil(words / 2) * 8);

/**
 * Repacks rows of a matrix.
 * @param raw whole rows as stored in the file, of any alignment
 * @param groupOffset number of blocks before the first one in the same group of scales; their entries stay zero
 * @param memory holds the result until its next use
 */
export function repack(
  type: TensorType,
  raw: Uint8Array,
  rows: number,
  columns: number,
  groupOffset = 0,
  memory = new RepackBuffers(),
): Repacked {
  const pack = packers[type];
  if (!pack) return { quants: padRows(raw, rows, columns, tensorTypes[type].blockBytes) };
  const format: WeightFormat = weightFormats[type];
  const blocks = Math.ceil(columns / blockColumns);
  const quants = memory.quants((rows * blocks * format.quantBytesPerBlock) / 4);
  // Most formats number blocks continuously across rows, as if there were one row.
  const extent = format.scaleGroup.restartsEachRow
    ? { rows, blocks }
    : { rows: 1, blocks: groupOffset + rows * blocks };
  const scales = memory.scales(scaleSizeBytes(format, extent) / 4);
  pack(
    new DataView(raw.buffer, raw.byteOffset, raw.byteLength),
    { rows, columns },
    { quants, scales, groupOffset },
  );
  return { quants, scales };
}

/** Pads the rows of plain types to whole blocks with zeros. */
function padRows(raw: Uint8Array, rows: number, columns: number, elementBytes: number): Uint8Array {
  const rowBytes = columns * elementBytes;
  const paddedBytes = Math.ceil(columns / blockColumns) * blockColumns * elementBytes;
  if (rowBytes === paddedBytes) return raw;
  const quants = new Uint8Array(rows * paddedBytes);
  for (let row = 0; row < rows; row++) {
    quants.set(raw.subarray(row * rowBytes, (row + 1) * rowBytes), row * paddedBytes);
  }
  return quants;
}
