/** Zero-initialized target of packed blocks. */
export interface PackTarget {
  readonly quants: Uint32Array<ArrayBuffer>;
  readonly scales: Uint32Array<ArrayBuffer>;
  /** Number of blocks of the first group of scales that other calls fill. */
  readonly groupOffset: number;
}

/**
 * Converts `rows` x `columns` weights from file encoding to GPU layout. The file's blocks are consecutive, of any
 * alignment.
 */
export type Packer = (raw: DataView, extent: { rows: number; columns: number }, into: PackTarget) => void;

/** Creates a packer for formats whose rows are whole blocks of `blockBytes`, stored in file order. */
export const blockPacker =
  (blockBytes: number, pack: (raw: DataView, blocks: number, into: PackTarget) => void): Packer =>
  (raw, _extent, into) =>
    pack(raw, raw.byteLength / blockBytes, into);

/** Spreads bits 0 to 3 to the lowest bits of the four bytes of a word. */
const bitSpread = Uint32Array.from(
  { length: 16 },
  (_, bits) => (bits & 1) | ((bits & 2) << 7) | ((bits & 4) << 14) | ((bits & 8) << 21),
);

/**
 * Converts bits in column order (first column lowest) to GPU order: bit `8 k + j` belongs to column `4 j + k`, so
 * that one shift extracts the bits of four consecutive columns.
 */
export function quadBits(bits: number): number {
  let word = 0;
  for (let j = 0; j < 8; j++) word |= (bitSpread[(bits >>> (4 * j)) & 15] as number) << j;
  return word;
}
