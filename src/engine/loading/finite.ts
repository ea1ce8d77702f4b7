/** Finds weights that are infinite or NaN. A damaged block shows in its scales, a damaged float in itself. */
import { ModelFileError, type TensorInfo, type TensorType, tensorTypes } from '../formats/model-file.ts';
import { bytesOfRow } from '../formats/rows.ts';

/** Byte offsets of the scales in a block; for plain floats, each value is its own scale. */
const scaleOffsets: Readonly<Record<TensorType, readonly number[]>> = {
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

/** The MXFP4 exponent that encodes NaN. */
const nanExponent = 0xff;

/**
 * Bit masks of the floats in a 32-bit word. `exponents` are all exponent bits, which are all set only in infinity and
 * NaN. Adding `lowest`, the lowest exponent bit, to them carries into the sign bit exactly when all are set.
 */
interface ExponentPattern {
  readonly exponents: number;
  readonly lowest: number;
  readonly signs: number;
}
const f32Pattern: ExponentPattern = { exponents: 0x7f80_0000, lowest: 0x0080_0000, signs: 0x8000_0000 | 0 };
const f16Pattern: ExponentPattern = { exponents: 0x7c00_7c00, lowest: 0x0400_0400, signs: 0x8000_8000 | 0 };
const bf16Pattern: ExponentPattern = { exponents: 0x7f80_7f80, lowest: 0x0080_0080, signs: 0x8000_8000 | 0 };

const patternOf = (type: TensorType): ExponentPattern =>
  type === 'F32' ? f32Pattern : type === 'BF16' || type === 'MLC_Q4F32' ? bf16Pattern : f16Pattern;

/** Words that are checked before each branch: one branch per word would dominate the time. */
const wordsPerBatch = 1024;

/** Index of the first word with a float that is not finite; -1 when all are finite. */
const firstBadWord = (words: Int32Array, { exponents, lowest, signs }: ExponentPattern): number => {
  for (let start = 0; start < words.length; start += wordsPerBatch) {
    const end = Math.min(words.length, start + wordsPerBatch);
    let carries = 0;
    for (let at = start; at < end; at++) carries |= ((words[at]! & exponents) + lowest) | 0;
    if ((carries & signs) === 0) continue;
    for (let at = start; at < end; at++)
      if (((((words[at]! & exponents) + lowest) | 0) & signs) !== 0) return at;
  }
  return -1;
};

/** Checks word-aligned floats: whole words first, then the remaining bytes. */
const firstBadFloat = (type: TensorType, bytes: Uint8Array): number => {
  const { blockBytes } = tensorTypes[type];
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const word = firstBadWord(words, patternOf(type));
  const from = (word === -1 ? words.length : word) * (4 / blockBytes);
  const rest = firstBadBlock(type, bytes.subarray(from * blockBytes));
  return rest === -1 ? -1 : from + rest;
};

const firstBadBlock = (type: TensorType, bytes: Uint8Array): number => {
  const { blockBytes } = tensorTypes[type];
  const exponent = patternOf(type).exponents >>> 16;
  // Little-endian: the upper half of a 32-bit float, which has the exponent, comes second.
  const skip = type === 'F32' || type === 'MLC_Q4F32' ? 2 : 0;
  const blocks = bytes.length / blockBytes;
  const halves =
    bytes.byteOffset % 2 === 0
      ? new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1)
      : undefined;
  for (const scale of scaleOffsets[type]) {
    let at = scale + skip;
    if (halves && blockBytes % 2 === 0) {
      const step = blockBytes / 2;
      for (let block = 0, half = at / 2; block < blocks; block++, half += step)
        if ((halves[half]! & exponent) === exponent) return block;
      continue;
    }
    for (let block = 0; block < blocks; block++, at += blockBytes) {
      const half = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
      if ((half & exponent) === exponent) return block;
    }
  }
  return -1;
};

/** Index of the first block (for floats: value) that is infinite or NaN; -1 when all are finite. */
export const firstNonFinite = (type: TensorType, bytes: Uint8Array): number => {
  const { blockBytes, blockElements } = tensorTypes[type];
  if (type === 'MXFP4') {
    for (let at = 0; at < bytes.length; at += blockBytes)
      if (bytes[at] === nanExponent) return at / blockBytes;
    return -1;
  }
  return blockElements === 1 && bytes.byteOffset % 4 === 0
    ? firstBadFloat(type, bytes)
    : firstBadBlock(type, bytes);
};

/**
 * Rejects rows of a tensor that hold an infinite or NaN value, because every output of the model would be NaN as
 * well.
 * @param firstRow index in the tensor of the first of these rows
 * @throws ModelFileError `corrupt`
 */
export function requireFinite(name: string, tensor: TensorInfo, bytes: Uint8Array, firstRow: number): void {
  const badBlock = firstNonFinite(tensor.type, bytes);
  if (badBlock === -1) return;
  const blocksOfRow = bytesOfRow(tensor) / tensorTypes[tensor.type].blockBytes;
  const row = firstRow + Math.floor(badBlock / blocksOfRow);
  throw new ModelFileError(
    'corrupt',
    `${name}: tensor '${tensor.name}' holds a value that is infinite or NaN (row ${row}); the file is damaged, download it again`,
  );
}
