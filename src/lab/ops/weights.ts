import { blockColumns, quantBytes, scaleBytes, weightFormat } from '../../../kernels/formats.ts';
import type { Random } from './random.ts';
import { type Layout, layouts, viewsOf } from './weight-layouts.ts';

/** A matrix as it lies on the GPU, see `wgsl/lab/lib/weights.wgsl`: `quants` of whole blocks, `scales` apart. */
export interface PackedWeights {
  readonly quants: Uint32Array<ArrayBuffer>;
  /** A few words of noise where the format has none. */
  readonly scales: Uint32Array<ArrayBuffer>;
}

const layoutOf = (format: string): Layout => layouts[weightFormat(format).name] as Layout;

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
  const layout = layoutOf(format);
  const extent = { rows, blocks: columns / blockColumns };
  const words = quantBytes(weightFormat(format), extent) / 4;
  const scaleWords = scaleBytes(weightFormat(format), extent) / 4;
  if ('plain' in layout) {
    const codes = layout.plain(random.normals(poolSize, scale));
    const stored = codes instanceof Uint32Array ? new Uint32Array(words) : new Uint16Array(2 * words);
    for (let i = 0; i < stored.length; i++) stored[i] = codes[random.u32() >>> 18] as number;
    return { quants: new Uint32Array(stored.buffer), scales: random.words(4) };
  }
  const quants = random.words(words);
  const scales = random.words(Math.max(4, scaleWords));
  layout.tame(scales.subarray(0, scaleWords), () => (scale / layout.magnitude) * (0.5 + random.uniform()));
  return { quants, scales };
}

/** Weights of the plain formats are drawn from so many values of a normal distribution. */
const poolSize = 1 << 14;

/** The weights of rows as numbers, from their place on the GPU. */
export class WeightReader {
  readonly #layout: Layout;
  readonly #columns: number;
  readonly #views: ReturnType<typeof viewsOf>;

  constructor({ quants, scales }: PackedWeights, format: string, columns: number) {
    this.#layout = layoutOf(format);
    this.#columns = columns;
    this.#views = viewsOf(quants, scales);
  }

  /** @returns `columns` weights of a row; all of them are numbers that f32 holds. */
  row(row: number): Float32Array<ArrayBuffer> {
    const out = new Float32Array(this.#columns);
    const blocks = this.#columns / blockColumns;
    for (let b = 0; b < blocks; b++) {
      this.#layout.read(
        this.#views,
        { block: row * blocks + b, row, b, blocks },
        out.subarray(32 * b, 32 * b + 32),
      );
    }
    return out;
  }
}
