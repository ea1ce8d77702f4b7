/** Where blocks of a matrix go; all of it is zero before. */
export interface Packed {
  readonly quants: Uint32Array<ArrayBuffer>;
  readonly scales: Uint32Array<ArrayBuffer>;
  /** Blocks of the first group of scales that others have filled, or will fill. */
  readonly phase: number;
}

/** File encoding to GPU layout, `rows` of `columns`: the file's blocks lie one after the other, of any alignment. */
export type Packer = (raw: DataView, extent: { rows: number; columns: number }, into: Packed) => void;

/** A packer of formats whose rows are whole blocks of `blockBytes`, in the order of the file. */
export const packerOf =
  (blockBytes: number, pack: (raw: DataView, blocks: number, into: Packed) => void): Packer =>
  (raw, _extent, into) =>
    pack(raw, raw.byteLength / blockBytes, into);

/** Bits 0 to 3 to the lowest bit of the four bytes of a word. */
const spread = Uint32Array.from(
  { length: 16 },
  (_, bits) => (bits & 1) | ((bits & 2) << 7) | ((bits & 4) << 14) | ((bits & 8) << 21),
);

/**
 * A bit a column (the first lowest) to the order of the GPU: bit `8 k + j` is that of column `4 j + k`, so that the four
 * of a quad come out of one shift.
 */
export function quadBits(bits: number): number {
  let word = 0;
  for (let j = 0; j < 8; j++) word |= (spread[(bits >>> (4 * j)) & 15] as number) << j;
  return word;
}
