/** Converts MLC's quantization groups to blocks: the scale, then the quants in the order of the block type. */
import { decodeFloats } from '../float-bytes.ts';
import { ModelFileError, type TensorType, tensorTypes } from '../model-file.ts';
import { groupWords } from './quantization.ts';
import type { MlcArray } from './tensor-cache.ts';

const groupBytes = groupWords * 4;
/** Adds 1 to each of eight nibbles; MLC's zero is 7, Q4_0's is 8. */
const ones = 0x11111111;

/**
 * @param quants whole groups, aligned to 32-bit words
 * @param scales one per group, as stored in the file
 * @param out receives blocks of `type`
 * @throws ModelFileError `corrupt` for a quant that MLC never writes
 */
export const encodeBlocks = (
  array: Pick<MlcArray, 'name' | 'type'>,
  {
    type,
    quants,
    scales,
    out,
  }: { type: TensorType; quants: Uint8Array; scales: Uint8Array; out: Uint8Array },
): void => {
  const words = new Uint32Array(quants.buffer, quants.byteOffset, quants.length / 4);
  const { blockBytes } = tensorTypes[type];
  const groups = words.length / groupWords;
  const scaleBytes = type === 'MLC_Q4F32' ? scalesToF32(array.type, scales, groups) : scales;
  const scaleSizeBytes = scaleBytes.length / groups;
  for (let group = 0; group < groups; group++) {
    const at = group * blockBytes;
    for (let byte = 0; byte < scaleSizeBytes; byte++)
      out[at + byte] = scaleBytes[group * scaleSizeBytes + byte]!;
    if (type === 'MLC_Q3F16') {
      out.set(quants.subarray(group * groupBytes, (group + 1) * groupBytes), at + scaleSizeBytes);
      continue;
    }
    const first = group * groupWords;
    if (type === 'MLC_Q4F32') {
      interleave(words[first]!, words[first + 2]!, out, at + scaleSizeBytes);
      interleave(words[first + 1]!, words[first + 3]!, out, at + scaleSizeBytes + 8);
      continue;
    }
    for (let word = first; word < first + groupWords; word++) rejectQuant15(array, words[word]!);
    interleave(words[first]! + ones, words[first + 2]! + ones, out, at + scaleSizeBytes);
    interleave(words[first + 1]! + ones, words[first + 3]! + ones, out, at + scaleSizeBytes + 8);
  }
};

/**
 * Writes eight bytes: the weights of `low` in the low nibbles, those of `high` (16 weights later) in the high nibbles.
 */
const interleave = (low: number, high: number, out: Uint8Array, at: number): void => {
  for (let pair = 0; pair < 4; pair++) {
    const a = low >>> (pair * 8);
    const b = high >>> (pair * 8);
    out[at + 2 * pair] = (a & 15) | ((b & 15) << 4);
    out[at + 2 * pair + 1] = ((a >>> 4) & 15) | (b & 0xf0);
  }
};

const rejectQuant15 = ({ name }: Pick<MlcArray, 'name'>, word: number): void => {
  if ((word & (word >>> 1) & (word >>> 2) & (word >>> 3) & ones) === 0) return;
  throw new ModelFileError(
    'corrupt',
    `tensor '${name}' holds the quant 15, but MLC writes 0 to 14; the shard is corrupt, download it again`,
  );
};

const scalesToF32 = (type: MlcArray['type'], bytes: Uint8Array, count: number): Uint8Array => {
  if (type === 'U32') throw new RangeError('scales must be floats, got U32');
  const values = new Float32Array(count);
  decodeFloats(type, bytes, values);
  return new Uint8Array(values.buffer);
};
