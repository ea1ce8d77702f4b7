import { numberFromF16 } from '../half.ts';

/** A file encoding of weights: blocks of so many elements in so many bytes. */
export interface Codec {
  readonly blockElements: number;
  readonly blockBytes: number;
  /** One block at `at`; all arithmetic rounds to f32, as the formats' own decoders do. */
  readonly decode: (bytes: DataView, at: number, out: Float32Array) => void;
}

export const f16At = (bytes: DataView, at: number): number => numberFromF16(bytes.getUint16(at, true));
