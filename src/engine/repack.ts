/** File encoding to GPU layout. What the bits of a block mean there is said in `wgsl/lib/weight_*.wgsl`. */
import { blockColumns, scaleBytes, type WeightFormat, weightFormats } from '../../kernels/formats.ts';
import { type TensorType, tensorTypes } from './formats/model-file.ts';
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
  /** Whole groups; none where the format has none. */
  readonly scales?: Uint32Array<ArrayBuffer>;
}

/** Memory that repacking uses again and again: touching fresh pages would cost more than the repacking itself. */
export class RepackMemory {
  #quants = new ArrayBuffer(0);
  #scales = new ArrayBuffer(0);

  /** Zeros, in place of what was there before. */
  quants(words: number): Uint32Array<ArrayBuffer> {
    if (this.#quants.byteLength < 4 * words) this.#quants = roomFor(words);
    return new Uint32Array(this.#quants, 0, words).fill(0);
  }

  /** Zeros, in place of what was there before. */
  scales(words: number): Uint32Array<ArrayBuffer> {
    if (this.#scales.byteLength < 4 * words) this.#scales = roomFor(words);
    return new Uint32Array(this.#scales, 0, words).fill(0);
  }
}

/** Packers also see it as words of 8 bytes. */
const roomFor = (words: number): ArrayBuffer => new ArrayBuffer(Math.ceil(words / 2) * 8);

/**
 * @param raw whole rows as the file has them, of any alignment
 * @param phase blocks before the first that share its group of scales; their places stay zero
 * @param memory holds the result, until it is used again
 */
export function repack(
  type: TensorType,
  raw: Uint8Array,
  rows: number,
  columns: number,
  phase = 0,
  memory = new RepackMemory(),
): Repacked {
  const pack = packers[type];
  if (!pack) return { quants: padded(raw, rows, columns, tensorTypes[type].blockBytes) };
  const format: WeightFormat = weightFormats[type];
  const blocks = Math.ceil(columns / blockColumns);
  const quants = memory.quants((rows * blocks * format.quantBytesPerBlock) / 4);
  // Blocks of most formats are counted on from row to row: as if they were one.
  const places = format.scaleGroup.byRow ? { rows, blocks } : { rows: 1, blocks: phase + rows * blocks };
  const scales = memory.scales(scaleBytes(format, places) / 4);
  pack(
    new DataView(raw.buffer, raw.byteOffset, raw.byteLength),
    { rows, columns },
    { quants, scales, phase },
  );
  return { quants, scales };
}

/** Plain types whose rows are not whole blocks get zeros to the end of the last one. */
function padded(raw: Uint8Array, rows: number, columns: number, elementBytes: number): Uint8Array {
  const rowBytes = columns * elementBytes;
  const paddedBytes = Math.ceil(columns / blockColumns) * blockColumns * elementBytes;
  if (rowBytes === paddedBytes) return raw;
  const quants = new Uint8Array(rows * paddedBytes);
  for (let row = 0; row < rows; row++) {
    quants.set(raw.subarray(row * rowBytes, (row + 1) * rowBytes), row * paddedBytes);
  }
  return quants;
}
