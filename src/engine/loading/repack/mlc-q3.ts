/**
 * MLC's 3-bit rows: groups of 40 columns with an f16 scale and four words of ten quants. The GPU layout has blocks of
 * 32 columns: two low bits as in the K types, and the high bit separately. A group of scales covers five blocks: four
 * f16 scales, then five words of high bits.
 */
import type { Packer } from './packer.ts';

const groupBytes = 18;
const groupColumns = 40;
const wordsPerGroup = 7;
/** Quant code of zero, which pads the last block of a row. */
const zero = 3;

export const packMlcQ3: Packer = (raw, { rows, columns }, { quants, scales }) => {
  const blocks = Math.ceil(columns / 32);
  const groups = Math.ceil(columns / groupColumns);
  const halves = new Uint16Array(scales.buffer);
  const codes = new Uint8Array(Math.max(groups * groupColumns, blocks * 32));
  const quads = new Uint32Array(codes.buffer);
  for (let row = 0; row < rows; row++) {
    const scalesOfRow = row * Math.ceil(blocks / 5) * wordsPerGroup;
    for (let group = 0; group < groups; group++) {
      const at = (row * groups + group) * groupBytes;
      halves[2 * (scalesOfRow + (group >> 2) * wordsPerGroup) + (group & 3)] = raw.getUint16(at, true);
      for (let w = 0, c = group * groupColumns; w < 4; w++) {
        let ten = raw.getUint32(at + 2 + 4 * w, true);
        for (let n = 0; n < 10; n++, ten >>>= 3) codes[c++] = ten & 7;
      }
    }
    codes.fill(zero, columns);
    for (let b = 0; b < blocks; b++) {
      const to = 2 * (row * blocks + b);
      const high = scalesOfRow + Math.floor(b / 5) * wordsPerGroup + 2 + (b % 5);
      let thirdBits = 0;
      for (let j = 0; j < 8; j++) {
        const quad = quads[8 * b + j] as number;
        const half = to + (j >> 2);
        quants[half] = (quants[half] as number) | ((quad & 0x03030303) << (2 * (j & 3)));
        thirdBits |= ((quad >>> 2) & 0x01010101) << j;
      }
      scales[high] = thirdBits;
    }
  }
};
