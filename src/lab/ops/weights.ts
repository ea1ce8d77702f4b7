import { blockColumns, weightFormats } from '../../../kernels/formats.ts';
import { bf16FromNumber } from '../../../kernels/reference/index.ts';
import type { Random } from './random.ts';

/** A matrix as it lies on the GPU, see `wgsl/lab/lib/weights.wgsl`: `quants` of whole blocks, `scales` apart. */
export interface PackedWeights {
  readonly quants: Uint32Array<ArrayBuffer>;
  /** Two f16 a word; a few words of noise where the format has none. */
  readonly scales: Uint32Array<ArrayBuffer>;
}

const byName = new Map<string, (typeof weightFormats)[keyof typeof weightFormats]>(
  Object.values(weightFormats).map((format) => [format.name, format]),
);

function formatOf(name: string) {
  const format = byName.get(name);
  if (!format) throw new Error(`weight format '${name}': expected one of ${[...byName.keys()].join(', ')}`);
  return format;
}

/** Of 32 weights, with their scale. */
export function blockBytes(format: string): number {
  const { quantBytesPerBlock, scaleBytesPerBlock } = formatOf(format);
  return quantBytesPerBlock + scaleBytesPerBlock;
}

/** Weights of the plain formats are drawn from so many values of a normal distribution. */
const poolSize = 1 << 14;

/**
 * Random weights of about `scale` in the mean square. Bits are drawn as they are stored: quantising values would take
 * most of a registration's second.
 */
export function randomWeights(
  random: Random,
  format: string,
  rows: number,
  columns: number,
  scale: number,
): PackedWeights {
  const blocks = rows * (columns / blockColumns);
  const { quantBytesPerBlock } = formatOf(format);
  const words = (blocks * quantBytesPerBlock) / 4;
  if (format === 'q8_0') return quantised(random, words, blocks, scale / 74);
  if (format === 'q4_0') return quantised(random, words, blocks, scale / 4.6);
  const pool = random.normals(poolSize, scale);
  const quants = new Uint32Array(words);
  const codes =
    format === 'f32'
      ? new Uint32Array(pool.buffer)
      : format === 'bf16'
        ? Uint16Array.from(pool, bf16FromNumber)
        : new Uint16Array(Float16Array.from(pool).buffer);
  const stored = format === 'f32' ? quants : new Uint16Array(quants.buffer);
  for (let i = 0; i < stored.length; i++) stored[i] = codes[random.u32() >>> 18] as number;
  return { quants, scales: random.words(4) };
}

/** Scales between half and three halves of `unit`, so that one taken for another shows. */
function quantised(random: Random, words: number, blocks: number, unit: number): PackedWeights {
  const quants = random.words(words);
  const scales = new Uint32Array(Math.max(4, Math.ceil(blocks / 2)));
  const halves = new Float16Array(scales.buffer);
  for (let i = 0; i < blocks; i++) halves[i] = unit * (0.5 + random.uniform());
  return { quants, scales };
}

/** The weights of rows as numbers, from their place on the GPU. */
export class WeightReader {
  readonly #format: string;
  readonly #columns: number;
  readonly #words: Uint32Array;
  readonly #bytes: Int8Array;
  readonly #halves: Float16Array;
  readonly #floats: Float32Array;
  readonly #scales: Float16Array;
  readonly #bits = new Uint32Array(1);
  readonly #float = new Float32Array(this.#bits.buffer);

  constructor({ quants, scales }: PackedWeights, format: string, columns: number) {
    formatOf(format);
    this.#format = format;
    this.#columns = columns;
    this.#words = quants;
    const { buffer, byteOffset, byteLength } = quants;
    this.#bytes = new Int8Array(buffer, byteOffset, byteLength);
    this.#halves = new Float16Array(buffer, byteOffset, byteLength / 2);
    this.#floats = new Float32Array(buffer, byteOffset, byteLength / 4);
    this.#scales = new Float16Array(scales.buffer, scales.byteOffset, scales.length * 2);
  }

  /** @returns `columns` weights of a row; all of them are numbers that f32 holds. */
  row(row: number): Float32Array<ArrayBuffer> {
    const out = new Float32Array(this.#columns);
    const first = row * this.#columns;
    switch (this.#format) {
      case 'q8_0':
        for (let c = 0; c < out.length; c++) {
          const at = first + c;
          out[c] = (this.#bytes[at] as number) * (this.#scales[at >> 5] as number);
        }
        break;
      case 'q4_0':
        for (let c = 0; c < out.length; c++) {
          const at = first + c;
          const byte = this.#bytes[(at >> 5) * 16 + (at & 15)] as number;
          const nibble = (at & 16 ? byte >> 4 : byte) & 15;
          out[c] = (nibble - 8) * (this.#scales[at >> 5] as number);
        }
        break;
      case 'f16':
        out.set(this.#halves.subarray(first, first + out.length));
        break;
      case 'bf16':
        for (let c = 0; c < out.length; c++) {
          const word = this.#words[(first + c) >> 1] as number;
          this.#bits[0] = c & 1 ? word & 0xffff0000 : word << 16;
          out[c] = this.#float[0] as number;
        }
        break;
      default:
        out.set(this.#floats.subarray(first, first + out.length));
    }
    return out;
  }
}
