/** Decodes and encodes weight types of model files. */
import { quantizers, type QuantizedType } from '../quantize/index.ts';
import { mlcQ3F16, mlcQ4F32, q4_0, q4_1, q5_0, q5_1, q8_0 } from './codecs/blocks-of-32.ts';
import type { Codec } from './codecs/codec.ts';
import { iq4NL, iq4XS, mxfp4 } from './codecs/four-bit-codes.ts';
import { q2K, q3K, q4K, q5K, q6K } from './codecs/k-quants.ts';
import { bf16, f16, f32 } from './codecs/plain.ts';
import { bf16FromNumber, f16FromNumber } from './half.ts';
import { assertLength } from './vectors.ts';

const codecs = {
  F32: f32,
  F16: f16,
  BF16: bf16,
  Q8_0: q8_0,
  Q4_0: q4_0,
  Q4_1: q4_1,
  Q5_0: q5_0,
  Q5_1: q5_1,
  Q2_K: q2K,
  Q3_K: q3K,
  Q4_K: q4K,
  Q5_K: q5K,
  Q6_K: q6K,
  IQ4_NL: iq4NL,
  IQ4_XS: iq4XS,
  MXFP4: mxfp4,
  MLC_Q4F32: mlcQ4F32,
  MLC_Q3F16: mlcQ3F16,
} as const satisfies Record<string, Codec>;

export type WeightType = keyof typeof codecs;
/** Types that `quantize` supports. */
export type EncodableType = 'F32' | 'F16' | 'BF16' | QuantizedType;

/**
 * @param bytes encoded data as in the file, with any alignment
 * @param elements number of elements, a multiple of the block size of the type
 * @returns [elements]
 */
export function dequantize(type: WeightType, bytes: Uint8Array, elements: number): Float32Array<ArrayBuffer> {
  const { blockElements, blockBytes, decode } = codecs[type];
  assertLength(`${type} of ${elements} elements, in bytes,`, bytes, (elements / blockElements) * blockBytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(elements);
  for (let first = 0, at = 0; first < elements; first += blockElements, at += blockBytes) {
    decode(view, at, out.subarray(first, first + blockElements));
  }
  return out;
}

/**
 * Decodes a matrix in which every row begins a new block; the last block of a row can be partial.
 * @returns [rows, columns]
 */
export function dequantizeRows(
  type: WeightType,
  bytes: Uint8Array,
  { rows, columns }: { rows: number; columns: number },
): Float32Array<ArrayBuffer> {
  const { blockElements } = codecs[type];
  const padded = Math.ceil(columns / blockElements) * blockElements;
  const all = dequantize(type, bytes, rows * padded);
  if (padded === columns) return all;
  const out = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    out.set(all.subarray(row * padded, row * padded + columns), row * columns);
  }
  return out;
}

/** Encodes values, bit-identical to llama.cpp's reference quantizer. */
export function quantize(type: EncodableType, values: Float32Array): Uint8Array<ArrayBuffer> {
  switch (type) {
    case 'F32':
      return new Uint8Array(values.slice().buffer);
    case 'F16':
      return new Uint8Array(Uint16Array.from(values, f16FromNumber).buffer);
    case 'BF16':
      return new Uint8Array(Uint16Array.from(values, bf16FromNumber).buffer);
    default:
      return quantizers[type](values);
  }
}
