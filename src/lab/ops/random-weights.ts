import { blockColumns, quantSizeBytes, scaleSizeBytes, weightFormat } from '../../../kernels/formats.ts';
import type { Random } from './random.ts';
import { type Layout, layouts, viewsOf } from './weight-layouts.ts';

/** A weight matrix in its GPU layout, see `wgsl/lab/lib/weights.wgsl`: quants of whole blocks, and separate scales. */
export interface PackedWeights {
  readonly quants: Uint32Array<ArrayBuffer>;
  /** A few random words for formats without scales. */
  readonly scales: Uint32Array<ArrayBuffer>;
}

const layoutOf = (format: string): Layout => layouts[weightFormat(format).name] as Layout;

/**
 * Random weights with a root mean square of about `scale`. The stored bits are generated directly, because quantizing
 * values would take most of the time of a registration.
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
  const words = quantSizeBytes(weightFormat(format), extent) / 4;
  const scaleWords = scaleSizeBytes(weightFormat(format), extent) / 4;
  if ('plain' in layout) {
    const codes = layout.plain(random.normals(poolSize, scale));
    const stored = codes instanceof Uint32Array ? new Uint32Array(words) : new Uint16Array(2 * words);
    for (let i = 0; i < stored.length; i++) stored[i] = codes[random.u32() >>> 18] as number;
    return { quants: new Uint32Array(stored.buffer), scales: random.words(4) };
  }
  const quants = random.words(words);
  const scales = random.words(Math.max(4, scaleWords));
  layout.writeScales(
    scales.subarray(0, scaleWords),
    () => (scale / layout.magnitude) * (0.5 + random.uniform()),
  );
  return { quants, scales };
}

/** Weights of the plain formats are picked from this many normally distributed values. */
const poolSize = 1 << 14;

/** Decodes rows of a weight matrix from its GPU layout. */
export class WeightReader {
  readonly #layout: Layout;
  readonly #columns: number;
  readonly #views: ReturnType<typeof viewsOf>;

  constructor({ quants, scales }: PackedWeights, format: string, columns: number) {
    this.#layout = layoutOf(format);
    this.#columns = columns;
    this.#views = viewsOf(quants, scales);
  }

  /** @returns the `columns` weights of a row */
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
