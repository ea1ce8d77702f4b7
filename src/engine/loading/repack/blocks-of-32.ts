/**
 * Packers of formats whose blocks of 32 columns have their own scale. Quants are whole 16-byte words; scales are
 * separate.
 */
import { blockPacker, quadBits } from './packer.ts';

// Unchanged quants are copied eight bytes at a time with unrolled loops: two to four times as fast as loops over
// words.

/** File block: f16 scale, 32 bytes. */
export const packQ8 = blockPacker(34, (raw, blocks, { quants, scales, groupOffset }) => {
  const halves = new Uint16Array(scales.buffer);
  const quants64 = new BigUint64Array(quants.buffer);
  for (let block = 0, at = 0, to = 0; block < blocks; block++, at += 34, to += 4) {
    halves[groupOffset + block] = raw.getUint16(at, true);
    quants64[to] = raw.getBigUint64(at + 2, true);
    quants64[to + 1] = raw.getBigUint64(at + 10, true);
    quants64[to + 2] = raw.getBigUint64(at + 18, true);
    quants64[to + 3] = raw.getBigUint64(at + 26, true);
  }
});

/** File block: f16 scale, 16 bytes of nibbles. For Q4_0 and IQ4_NL. */
export const packQ4 = blockPacker(18, (raw, blocks, { quants, scales, groupOffset }) => {
  const halves = new Uint16Array(scales.buffer);
  const quants64 = new BigUint64Array(quants.buffer);
  for (let block = 0, at = 0, to = 0; block < blocks; block++, at += 18, to += 2) {
    halves[groupOffset + block] = raw.getUint16(at, true);
    quants64[to] = raw.getBigUint64(at + 2, true);
    quants64[to + 1] = raw.getBigUint64(at + 10, true);
  }
});

/** File block: one exponent byte, 16 bytes of nibbles. */
export const packMxfp4 = blockPacker(17, (raw, blocks, { quants, scales, groupOffset }) => {
  const exponents = new Uint8Array(scales.buffer);
  const quants64 = new BigUint64Array(quants.buffer);
  for (let block = 0, at = 0, to = 0; block < blocks; block++, at += 17, to += 2) {
    exponents[groupOffset + block] = raw.getUint8(at);
    quants64[to] = raw.getBigUint64(at + 1, true);
    quants64[to + 1] = raw.getBigUint64(at + 9, true);
  }
});

/** File block: one word (Q4_1: f16 scale and minimum; MLC_Q4F32: f32 scale), 16 bytes of nibbles. */
export const packWordThenNibbles = blockPacker(20, (raw, blocks, { quants, scales }) => {
  const quants64 = new BigUint64Array(quants.buffer);
  for (let block = 0, at = 0; block < blocks; block++, at += 20) {
    scales[block] = raw.getUint32(at, true);
    quants64[2 * block] = raw.getBigUint64(at + 4, true);
    quants64[2 * block + 1] = raw.getBigUint64(at + 12, true);
  }
});

/**
 * File block: f16 scale, one high bit for each column, nibbles. On the GPU, two blocks share three words: the high
 * bits of each, and both scales.
 */
export const packQ5 = blockPacker(22, (raw, blocks, { quants, scales, groupOffset }) => {
  const halves = new Uint16Array(scales.buffer);
  for (let block = 0, at = 0; block < blocks; block++, at += 22) {
    const blockIndex = groupOffset + block;
    const group = (blockIndex >> 1) * 3;
    halves[2 * group + 4 + (blockIndex & 1)] = raw.getUint16(at, true);
    scales[group + (blockIndex & 1)] = quadBits(raw.getUint32(at + 2, true));
    for (let w = 0; w < 4; w++) quants[4 * block + w] = raw.getUint32(at + 6 + 4 * w, true);
  }
});

/** File block: f16 scale and minimum, one high bit for each column, nibbles. */
export const packQ5WithMinimum = blockPacker(24, (raw, blocks, { quants, scales }) => {
  for (let block = 0, at = 0; block < blocks; block++, at += 24) {
    scales[2 * block] = quadBits(raw.getUint32(at + 4, true));
    scales[2 * block + 1] = raw.getUint32(at, true);
    for (let w = 0; w < 4; w++) quants[4 * block + w] = raw.getUint32(at + 8 + 4 * w, true);
  }
});
