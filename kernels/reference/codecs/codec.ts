import { numberFromF16 } from '../half.ts';

/** A file encoding of weights: blocks of so many elements in so many bytes. */
export interface Codec {
  readonly blockElements: number;
  readonly blockBytes: number;
  /** One block at `at`; all arithmetic rounds to f32, as the formats' own decoders do. */
  readonly decode: (bytes: DataView, at: number, out: Float32Array) => void;
}

export const f16At = (bytes: DataView, at: number): number => numberFromF16(bytes.getUint16(at, true));

/** Calls back with the nibble of each of 32 elements: in 16 bytes, the low ones are elements 0..15, the high ones 16..31. */
export function eachNibble(
  bytes: DataView,
  at: number,
  visit: (element: number, nibble: number) => void,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = bytes.getUint8(at + i);
    visit(i, pair & 15);
    visit(i + 16, pair >> 4);
  }
}
