/** Looks for weights that are no numbers: a damaged block shows in its scales, a damaged float in itself. */
import { type TensorType, tensorTypes } from './formats/model-file.ts';

/** Where a block has its scales, in bytes; of plain floats every value is one. */
const scales: Readonly<Record<TensorType, readonly number[]>> = {
  F32: [0],
  F16: [0],
  BF16: [0],
  Q8_0: [0],
  Q4_0: [0],
  Q4_1: [0, 2],
  Q5_0: [0],
  Q5_1: [0, 2],
  Q2_K: [80, 82],
  Q3_K: [108],
  Q4_K: [0, 2],
  Q5_K: [0, 2],
  Q6_K: [208],
  IQ4_NL: [0],
  IQ4_XS: [0],
  MXFP4: [0],
  MLC_Q4F32: [0],
  MLC_Q3F16: [0],
};

/** An exponent alone, of MXFP4, that stands for no number. */
const noExponent = 0xff;

/** All exponent bits, which only infinities and NaN have set. */
const halfExponent = 0x7c00;
const upperHalfExponent = 0x7f80;

/** Of a float whose upper 16 bits alone tell: they hold its exponent. */
const isWide = (type: TensorType): boolean => type === 'F32' || type === 'BF16' || type === 'MLC_Q4F32';

const firstOf = (values: Uint16Array | Uint32Array, exponent: number): number => {
  for (let at = 0; at < values.length; at++) if ((values[at]! & exponent) === exponent) return at;
  return -1;
};

/** The index of the first block (of a float: value) that is infinite or NaN; -1 when all are finite. */
export const firstNotFinite = (type: TensorType, bytes: Uint8Array): number => {
  const { blockBytes, blockElements } = tensorTypes[type];
  if (blockElements === 1 && bytes.byteOffset % blockBytes === 0) {
    const count = bytes.length / blockBytes;
    if (type === 'F32')
      return firstOf(new Uint32Array(bytes.buffer, bytes.byteOffset, count), upperHalfExponent << 16);
    const exponent = type === 'F16' ? halfExponent : upperHalfExponent;
    return firstOf(new Uint16Array(bytes.buffer, bytes.byteOffset, count), exponent);
  }
  if (type === 'MXFP4') {
    for (let at = 0; at < bytes.length; at += blockBytes)
      if (bytes[at] === noExponent) return at / blockBytes;
    return -1;
  }
  const exponent = isWide(type) ? upperHalfExponent : halfExponent;
  // Little-endian: the upper half of four bytes lies behind the lower.
  const skip = type === 'F32' || type === 'MLC_Q4F32' ? 2 : 0;
  const blocks = bytes.length / blockBytes;
  for (const scale of scales[type]) {
    for (let block = 0, at = scale + skip; block < blocks; block++, at += blockBytes) {
      const half = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
      if ((half & exponent) === exponent) return block;
    }
  }
  return -1;
};
