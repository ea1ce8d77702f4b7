/**
 * ggml's K types: superblocks of 256 elements. Sub-blocks have integer scales (and minima), which are multiplied by the
 * f16 d (and dmin) of the superblock. If 2-bit or 4-bit quants of several sub-blocks share bytes, byte i contains the
 * quants of element i of each.
 */
import { type Codec, f16At } from './codec.ts';

const { fround } = Math;

/**
 * 2-bit quants: 32 bytes for each half of the superblock; element e of sub-block s (32 elements) is at bit 2 s of byte
 * e.
 */
const twoBits = (bytes: DataView, at: number, i: number): number =>
  (bytes.getUint8(at + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;

/** Nibbles of Q4_K and Q5_K: 32 bytes contain 64 elements, the first 32 in the low nibbles. */
const nibble = (bytes: DataView, at: number, i: number): number =>
  (bytes.getUint8(at + 32 * (i >> 6) + (i & 31)) >> (i & 32 ? 4 : 0)) & 15;

/** Bit i / 32 of byte i mod 32. */
const bitPlane = (bytes: DataView, at: number, i: number): number =>
  (bytes.getUint8(at + (i & 31)) >> (i >> 5)) & 1;

/** 6-bit scale and minimum of sub-block s (0..7), from the 12 scale bytes of Q4_K and Q5_K. */
function scaleAndMinimum(bytes: DataView, at: number, s: number): [scale: number, minimum: number] {
  const byte = (n: number) => bytes.getUint8(at + n);
  if (s < 4) return [byte(s) & 63, byte(s + 4) & 63];
  return [(byte(s + 4) & 15) | ((byte(s - 4) >> 6) << 4), (byte(s + 4) >> 4) | ((byte(s) >> 6) << 4)];
}

/** 16 bytes with scale (low nibble) and minimum of each sub-block of 16, 64 bytes of 2-bit q, d, dmin. */
export const q2K: Codec = {
  blockElements: 256,
  blockBytes: 84,
  decode(bytes, at, out) {
    const d = f16At(bytes, at + 80);
    const dmin = f16At(bytes, at + 82);
    for (let i = 0; i < 256; i++) {
      const pair = bytes.getUint8(at + (i >> 4));
      const scale = fround(d * (pair & 15));
      out[i] = fround(scale * twoBits(bytes, at + 16, i)) - fround(dmin * (pair >> 4));
    }
  },
};

/** 32 bytes of high bits, 64 of 2-bit q, 12 with the 6-bit scales (offset 32) of sixteen sub-blocks of 16, d. */
export const q3K: Codec = {
  blockElements: 256,
  blockBytes: 110,
  decode(bytes, at, out) {
    const d = f16At(bytes, at + 108);
    for (let i = 0; i < 256; i++) {
      const s = i >> 4;
      const low = (bytes.getUint8(at + 96 + (s & 7)) >> (s < 8 ? 0 : 4)) & 15;
      const high = (bytes.getUint8(at + 104 + (s & 3)) >> (2 * (s >> 2))) & 3;
      const q = twoBits(bytes, at + 32, i) | (bitPlane(bytes, at, i) << 2);
      out[i] = fround(d * ((low | (high << 4)) - 32)) * (q - 4);
    }
  },
};

/** d, dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles; value d * scale * q - dmin * minimum. */
export const q4K: Codec = {
  blockElements: 256,
  blockBytes: 144,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const dmin = f16At(bytes, at + 2);
    for (let i = 0; i < 256; i++) {
      const [scale, minimum] = scaleAndMinimum(bytes, at + 4, i >> 5);
      out[i] = fround(fround(d * scale) * nibble(bytes, at + 16, i)) - fround(dmin * minimum);
    }
  },
};

/** Like Q4_K, with 32 bytes of high bits before the nibbles. */
export const q5K: Codec = {
  blockElements: 256,
  blockBytes: 176,
  decode(bytes, at, out) {
    const d = f16At(bytes, at);
    const dmin = f16At(bytes, at + 2);
    for (let i = 0; i < 256; i++) {
      const [scale, minimum] = scaleAndMinimum(bytes, at + 4, i >> 5);
      const q = nibble(bytes, at + 48, i) | (bitPlane(bytes, at + 16, i) << 4);
      out[i] = fround(fround(d * scale) * q) - fround(dmin * minimum);
    }
  },
};

/**
 * 128 bytes of low nibbles, 64 of 2-bit high parts, 16 int8 scales of sub-blocks of 16, d; value d * scale * (q - 32).
 */
export const q6K: Codec = {
  blockElements: 256,
  blockBytes: 210,
  decode(bytes, at, out) {
    const d = f16At(bytes, at + 208);
    for (let i = 0; i < 256; i++) {
      // 64 bytes of nibbles for each half: the low nibbles are its first 64 elements.
      const low = (bytes.getUint8(at + 64 * (i >> 7) + (i & 63)) >> (i & 64 ? 4 : 0)) & 15;
      const q = low | (twoBits(bytes, at + 128, i) << 4);
      out[i] = fround(d * bytes.getInt8(at + 192 + (i >> 4))) * (q - 32);
    }
  },
};
