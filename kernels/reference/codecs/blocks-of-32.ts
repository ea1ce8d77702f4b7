/**
 * Blocks of 32 elements with one scale d (f16 unless noted). Nibbles: 16 bytes, with elements 0..15 in the low nibbles
 * and 16..31 in the high ones. High bits: a little-endian u32 with bit i for element i.
 */
import { type Codec, eachNibble, f16At } from './codec.ts';

/** d, 32 x int8 q; value q * d. */
export const q8_0: Codec = {
  blockElements: 32,
  blockBytes: 34,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    for (let i = 0; i < 32; i++) out[i] = bytes.getInt8(at + 2 + i) * d;
  },
};

/** d, nibbles; value (q - 8) * d. */
export const q4_0: Codec = {
  blockElements: 32,
  blockBytes: 18,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    eachNibble(bytes, at + 2, (i, q) => (out[i] = (q - 8) * d));
  },
};

/** d, f16 minimum m, nibbles; value q * d + m. */
export const q4_1: Codec = {
  blockElements: 32,
  blockBytes: 20,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const m = f16At(bytes, at + 2);
    eachNibble(bytes, at + 4, (i, q) => (out[i] = Math.fround(q * d) + m));
  },
};

/** d, high bits, nibbles; value (q - 16) * d. */
export const q5_0: Codec = {
  blockElements: 32,
  blockBytes: 22,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const high = bytes.getUint32(at + 2, true);
    eachNibble(bytes, at + 6, (i, q) => (out[i] = ((q | (((high >>> i) & 1) << 4)) - 16) * d));
  },
};

/** d, f16 minimum m, high bits, nibbles; value q * d + m. */
export const q5_1: Codec = {
  blockElements: 32,
  blockBytes: 24,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const m = f16At(bytes, at + 2);
    const high = bytes.getUint32(at + 4, true);
    eachNibble(bytes, at + 8, (i, q) => (out[i] = Math.fround((q | (((high >>> i) & 1) << 4)) * d) + m));
  },
};

/** MLC's q4f32_1: d in f32, nibbles; value (q - 7) * d. */
export const mlcQ4F32: Codec = {
  blockElements: 32,
  blockBytes: 20,
  decode(bytes, at, out) {
    const d = bytes.getFloat32(at, true);
    eachNibble(bytes, at + 4, (i, q) => (out[i] = (q - 7) * d));
  },
};

/** MLC's q3f16_1: 40 elements; d, four u32 of ten 3-bit q each, the first in the low bits; value (q - 3) * d. */
export const mlcQ3F16: Codec = {
  blockElements: 40,
  blockBytes: 18,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    for (let i = 0; i < 40; i++) {
      const word = bytes.getUint32(at + 2 + 4 * Math.floor(i / 10), true);
      out[i] = (((word >>> (3 * (i % 10))) & 7) - 3) * d;
    }
  },
};
