/**
 * The file encodings of weights, both ways. Blocks of 32 elements:
 * Q8_0 = f16 scale d, 32 x int8 q, value q*d;
 * Q4_0 = f16 scale d, 16 bytes, low nibbles elements 0..15, high nibbles 16..31, value (q-8)*d.
 */
import { bf16FromNumber, f16FromNumber, numberFromBf16, numberFromF16 } from './half.ts';
import { expectLength } from './vectors.ts';

export type WeightType = 'F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0';

interface Codec {
  blockElements: number;
  blockBytes: number;
  decode: (bytes: DataView, at: number, out: Float32Array) => void;
  encode: (values: Float32Array, out: DataView, at: number) => void;
}

const codecs: Readonly<Record<WeightType, Codec>> = {
  F32: {
    blockElements: 1,
    blockBytes: 4,
    decode: (bytes, at, out) => out.fill(bytes.getFloat32(at, true)),
    encode: (values, out, at) => out.setFloat32(at, values[0]!, true),
  },
  F16: {
    blockElements: 1,
    blockBytes: 2,
    decode: (bytes, at, out) => out.fill(numberFromF16(bytes.getUint16(at, true))),
    encode: (values, out, at) => out.setUint16(at, f16FromNumber(values[0]!), true),
  },
  BF16: {
    blockElements: 1,
    blockBytes: 2,
    decode: (bytes, at, out) => out.fill(numberFromBf16(bytes.getUint16(at, true))),
    encode: (values, out, at) => out.setUint16(at, bf16FromNumber(values[0]!), true),
  },
  Q8_0: {
    blockElements: 32,
    blockBytes: 34,
    decode(bytes, at, out) {
      const d = numberFromF16(bytes.getUint16(at, true));
      for (let i = 0; i < 32; i++) out[i] = bytes.getInt8(at + 2 + i) * d;
    },
    encode(values, out, at) {
      let greatest = 0;
      for (const value of values) greatest = Math.max(greatest, Math.abs(value));
      const d = Math.fround(greatest / 127);
      const inverse = d === 0 ? 0 : Math.fround(1 / d);
      out.setUint16(at, f16FromNumber(d), true);
      for (let i = 0; i < 32; i++) {
        out.setInt8(at + 2 + i, roundHalfAway(Math.fround(values[i]! * inverse)));
      }
    },
  },
  Q4_0: {
    blockElements: 32,
    blockBytes: 18,
    decode(bytes, at, out) {
      const d = numberFromF16(bytes.getUint16(at, true));
      for (let i = 0; i < 16; i++) {
        const pair = bytes.getUint8(at + 2 + i);
        out[i] = ((pair & 15) - 8) * d;
        out[i + 16] = ((pair >> 4) - 8) * d;
      }
    },
    encode(values, out, at) {
      // The value farthest from zero becomes exactly -8: nibbles reach -8 but only +7.
      let farthest = 0;
      for (const value of values) if (Math.abs(value) > Math.abs(farthest)) farthest = value;
      const d = Math.fround(farthest / -8);
      const inverse = d === 0 ? 0 : Math.fround(1 / d);
      out.setUint16(at, f16FromNumber(d), true);
      const nibble = (value: number) =>
        Math.min(15, Math.trunc(Math.fround(Math.fround(value * inverse) + 8.5)));
      for (let i = 0; i < 16; i++) {
        out.setUint8(at + 2 + i, nibble(values[i]!) | (nibble(values[i + 16]!) << 4));
      }
    },
  },
};

function roundHalfAway(x: number): number {
  return Math.sign(x) * Math.floor(Math.abs(x) + 0.5);
}

/**
 * @param bytes the encoding as the file stores it, of any alignment
 * @param elements a multiple of the type's block
 * @returns [elements]
 */
export function dequantize(type: WeightType, bytes: Uint8Array, elements: number): Float32Array {
  const { blockElements, blockBytes, decode } = codecs[type];
  expectLength(`${type} of ${elements} elements, in bytes,`, bytes, (elements / blockElements) * blockBytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(elements);
  for (let first = 0, at = 0; first < elements; first += blockElements, at += blockBytes) {
    decode(view, at, out.subarray(first, first + blockElements));
  }
  return out;
}

/** Encodes to nearest, bit for bit as llama.cpp's reference quantiser does. */
export function quantize(type: WeightType, values: Float32Array): Uint8Array<ArrayBuffer> {
  const { blockElements, blockBytes, encode } = codecs[type];
  if (values.length % blockElements !== 0) {
    throw new RangeError(`${type} stores blocks of ${blockElements} values, not ${values.length} values`);
  }
  const out = new Uint8Array((values.length / blockElements) * blockBytes);
  const view = new DataView(out.buffer);
  for (let first = 0, at = 0; first < values.length; first += blockElements, at += blockBytes) {
    encode(values.subarray(first, first + blockElements), view, at);
  }
  return out;
}
