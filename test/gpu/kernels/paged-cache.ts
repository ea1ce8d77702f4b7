/** The paged KV cache as the kernels see it, built and read from plain [position, kvHead, headDim] rows. */
import { f16FromNumber, numberFromF16 } from '../../../kernels/reference/index.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { permutation } from '../../support/kernel-harness.ts';

export interface CacheShape {
  readonly slots: number;
  /** Pages of a slot. */
  readonly maxPages: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** Pages in random order, and some without owner. */
export class PagedCache {
  readonly shape: CacheShape;
  /** [slots, maxPages] */
  readonly pageTable: Uint32Array<ArrayBuffer>;
  readonly pages: number;

  constructor(shape: CacheShape, next: () => number) {
    this.shape = shape;
    this.pages = shape.slots * shape.maxPages + 3;
    this.pageTable = permutation(this.pages, next).slice(0, shape.slots * shape.maxPages);
  }

  /** f16 elements of one buffer. */
  get elements(): number {
    return this.pages * pageTokens * this.shape.kvHeads * this.shape.headDim;
  }

  /** Index of the first f16 element of a row. */
  at(slot: number, position: number, kvHead: number): number {
    const { maxPages, kvHeads, headDim } = this.shape;
    const page = this.pageTable[slot * maxPages + Math.floor(position / pageTokens)] as number;
    return ((page * kvHeads + kvHead) * pageTokens + (position % pageTokens)) * headDim;
  }

  /** A buffer of NaN, so that reading unwritten values shows. */
  poisoned(): Uint16Array<ArrayBuffer> {
    return new Uint16Array(new Uint32Array(Math.ceil(this.elements / 2)).fill(0x7e007e00).buffer);
  }

  /** Writes rows [positions, kvHeads, headDim] of a slot to a buffer, rounded. @returns the rounded values */
  fill(
    buffer: Uint16Array<ArrayBuffer>,
    slot: number,
    rows: Float32Array,
    firstPosition = 0,
  ): Float64Array<ArrayBuffer> {
    const { kvHeads, headDim } = this.shape;
    const stored = new Float64Array(rows.length);
    rows.forEach((value, index) => {
      const row = Math.floor(index / headDim);
      const at = this.at(slot, firstPosition + Math.floor(row / kvHeads), row % kvHeads) + (index % headDim);
      buffer[at] = f16FromNumber(value);
      stored[index] = numberFromF16(buffer[at]);
    });
    return stored;
  }

  /** Writes NaN to the first positions of a slot. */
  spoil(buffer: Uint16Array, slot: number, positions: number): void {
    const { kvHeads, headDim } = this.shape;
    for (let position = 0; position < positions; position++) {
      for (let head = 0; head < kvHeads; head++) {
        const at = this.at(slot, position, head);
        buffer.fill(0x7e00, at, at + headDim);
      }
    }
  }
}
