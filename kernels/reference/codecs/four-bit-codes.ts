/**
 * 4-bit codes of non-uniform values. In every 16 bytes, the low nibbles are elements 0..15 and the high nibbles 16..31.
 */
import { type Codec, eachNibble, f16At } from './codec.ts';

const { fround } = Math;

/** Code values of both IQ4 types. */
const iq4Values = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;

/** f16 d, nibbles; value d * number. */
export const iq4NL: Codec = {
  blockElements: 32,
  blockBytes: 18,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    eachNibble(bytes, at + 2, (i, q) => (out[i] = d * (iq4Values[q] as number)));
  },
};

/**
 * f16 d; eight 6-bit scales (offset 32), one for each 32 elements: a u16 with the upper two bits of each, the first in
 * the lowest bits, then 4 bytes with the lower four bits of two scales each, the first in the low nibble; 128 bytes of
 * nibbles. Value d * scale * number.
 */
export const iq4XS: Codec = {
  blockElements: 256,
  blockBytes: 136,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const upper = bytes.getUint16(at + 2, true);
    for (let s = 0; s < 8; s++) {
      const lower = (bytes.getUint8(at + 4 + (s >> 1)) >> (4 * (s & 1))) & 15;
      const scale = fround(d * ((lower | (((upper >> (2 * s)) & 3) << 4)) - 32));
      eachNibble(bytes, at + 8 + 16 * s, (i, q) => (out[32 * s + i] = scale * (iq4Values[q] as number)));
    }
  },
};

/** Decodes E2M1: sign, two exponent bits (bias 1), one fraction bit. */
function e2m1(nibble: number): number {
  const exponent = (nibble >> 1) & 3;
  const fraction = (nibble & 1) / 2;
  const size = exponent === 0 ? fraction : (1 + fraction) * 2 ** (exponent - 1);
  // Code 8 is +0, as in ggml.
  return nibble > 8 ? -size : size;
}

/** Unsigned exponent e (OCP E8M0), nibbles; value 2^(e - 127) * number. The NaN code 255 is not treated specially. */
export const mxfp4: Codec = {
  blockElements: 32,
  blockBytes: 17,
  decode(bytes, at, out) {
    const scale = 2 ** (bytes.getUint8(at) - 127);
    eachNibble(bytes, at + 1, (i, q) => (out[i] = scale * e2m1(q)));
  },
};
