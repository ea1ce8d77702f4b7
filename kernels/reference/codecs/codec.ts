import { numberFromF16 } from '../half.ts';

/** Decoder of a weight type in files: blocks of `blockElements` elements in `blockBytes` bytes. */
export interface Codec {
  readonly blockElements: number;
  readonly blockBytes: number;
  /** Decodes one block at byte `at`. All arithmetic rounds to f32, as in the original decoders. */
  readonly decode: (bytes: DataView, at: number, out: Float32Array) => void;
}

export const f16At = (bytes: DataView, at: number): number => numberFromF16(bytes.getUint16(at, true));

/**
 * Calls `visit` with the nibble of each of 32 elements: in 16 bytes, low nibbles are elements 0..15, high ones 16..31.
 */
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
