import { numberFromBf16 } from '../half.ts';
import { type Codec, f16At } from './codec.ts';

export const f32: Codec = {
  blockElements: 1,
  blockBytes: 4,
  decode: (bytes, at, out) => out.fill(bytes.getFloat32(at, true)),
};

export const f16: Codec = {
  blockElements: 1,
  blockBytes: 2,
  decode: (bytes, at, out) => out.fill(f16At(bytes, at)),
};

export const bf16: Codec = {
  blockElements: 1,
  blockBytes: 2,
  decode: (bytes, at, out) => out.fill(numberFromBf16(bytes.getUint16(at, true))),
};
