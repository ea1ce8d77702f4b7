/**
 * ggml's K types: superblocks of 256 columns. The file interleaves two or four blocks of 32 columns in the same
 * bytes; the GPU layout stores the eight blocks consecutively. 6-bit scales become bytes. A group of scales is a
 * superblock.
 */
import { blockPacker } from './packer.ts';

/** Unpacks the 6-bit scales and minima of eight blocks from 12 bytes: `scale | minimum << 8`, two pairs in a word. */
function unpackPairs(raw: DataView, at: number, scales: Uint32Array, to: number): void {
  const low = raw.getUint32(at, true);
  const middle = raw.getUint32(at + 4, true);
  const high = raw.getUint32(at + 8, true);
  // Bytes 0-3 are those of blocks 0-3, then of blocks 4-7.
  const scale = [low & 0x3f3f3f3f, (high & 0x0f0f0f0f) | ((low >>> 2) & 0x30303030)] as const;
  const minimum = [middle & 0x3f3f3f3f, ((high >>> 4) & 0x0f0f0f0f) | ((middle >>> 2) & 0x30303030)] as const;
  for (let half = 0; half < 2; half++) {
    const s = scale[half] as number;
    const m = minimum[half] as number;
    const woven = to + 2 * half;
    scales[woven] = (s & 0xff) | ((m & 0xff) << 8) | ((s & 0xff00) << 8) | ((m & 0xff00) << 16);
    scales[woven + 1] =
      ((s >>> 16) & 0xff) | ((m >>> 8) & 0xff00) | ((s >>> 8) & 0xff0000) | (m & 0xff000000);
  }
}

/**
 * Splits 32 bytes with one block in the low nibbles and another in the high nibbles into two blocks in Q4_0 order,
 * `apart` words from each other.
 */
function splitNibbles(raw: DataView, at: number, quants: Uint32Array, to: number, apart: number): void {
  for (let w = 0; w < 4; w++) {
    const first = raw.getUint32(at + 4 * w, true); // columns 0-15 of both
    const second = raw.getUint32(at + 16 + 4 * w, true); // columns 16-31
    quants[to + w] = (first & 0x0f0f0f0f) | ((second & 0x0f0f0f0f) << 4);
    quants[to + apart + w] = ((first >>> 4) & 0x0f0f0f0f) | (second & 0xf0f0f0f0);
  }
}

/**
 * Splits 32 bytes of 2-bit values of four interleaved blocks: each block becomes two words, with quad j shifted by 2
 * j bits.
 */
function splitPairs(raw: DataView, at: number, out: Uint32Array, to: number): void {
  for (let half = 0; half < 2; half++) {
    const first = raw.getUint32(at + 16 * half, true);
    const second = raw.getUint32(at + 16 * half + 4, true);
    const third = raw.getUint32(at + 16 * half + 8, true);
    const fourth = raw.getUint32(at + 16 * half + 12, true);
    for (let block = 0; block < 4; block++) {
      const shift = 2 * block;
      out[to + 2 * block + half] =
        ((first >>> shift) & 0x03030303) |
        (((second >>> shift) & 0x03030303) << 2) |
        (((third >>> shift) & 0x03030303) << 4) |
        (((fourth >>> shift) & 0x03030303) << 6);
    }
  }
}

/**
 * Splits 32 bytes with one bit for each of eight blocks: one word for each block, with column `4 j + k` in bit `8 k +
 * j`.
 */
function splitBits(raw: DataView, at: number, out: Uint32Array, to: number): void {
  for (let j = 0; j < 8; j++) {
    const quad = raw.getUint32(at + 4 * j, true);
    for (let block = 0; block < 8; block++) {
      out[to + block] = (out[to + block] as number) | (((quad >>> block) & 0x01010101) << j);
    }
  }
}

/** File: 16 bytes of `scale | minimum << 4`, 64 bytes of quants, f16 scale and minimum. */
export const packQ2K = blockPacker(84, (raw, blocks, { quants, scales }) => {
  for (let block = 0, at = 0; block < blocks; block++, at += 84) {
    const group = 5 * block;
    scales[group] = raw.getUint32(at + 80, true);
    for (let w = 0; w < 4; w++) scales[group + 1 + w] = raw.getUint32(at + 4 * w, true);
    splitPairs(raw, at + 16, quants, 16 * block);
    splitPairs(raw, at + 48, quants, 16 * block + 8);
  }
});

/** File: 32 bytes of high bits, 64 bytes of quants, 16 scales of 6 bits (offset 32) in 12 bytes, f16 scale. */
export const packQ3K = blockPacker(110, (raw, blocks, { quants, scales }) => {
  const bytes = new Int8Array(scales.buffer);
  for (let block = 0, at = 0; block < blocks; block++, at += 110) {
    const group = 13 * block;
    scales[group] = raw.getUint16(at + 108, true);
    const high = raw.getUint32(at + 104, true);
    for (let quarter = 0; quarter < 4; quarter++) {
      const low = raw.getUint32(at + 96 + 4 * (quarter & 1), true) >>> (quarter < 2 ? 0 : 4);
      const six = (low & 0x0f0f0f0f) | (((high >>> (2 * quarter)) & 0x03030303) << 4);
      const to = 4 * (group + 1 + quarter);
      for (let byte = 0; byte < 4; byte++) bytes[to + byte] = ((six >>> (8 * byte)) & 63) - 32;
    }
    splitBits(raw, at, scales, group + 5);
    splitPairs(raw, at + 32, quants, 16 * block);
    splitPairs(raw, at + 64, quants, 16 * block + 8);
  }
});

/** File: f16 scale and minimum, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles. */
export const packQ4K = blockPacker(144, (raw, blocks, { quants, scales }) => {
  for (let block = 0, at = 0; block < blocks; block++, at += 144) {
    scales[5 * block] = raw.getUint32(at, true);
    unpackPairs(raw, at + 4, scales, 5 * block + 1);
    for (let two = 0; two < 4; two++) splitNibbles(raw, at + 16 + 32 * two, quants, 32 * block + 8 * two, 4);
  }
});

/** Like Q4_K, with 32 bytes of high bits before the nibbles. */
export const packQ5K = blockPacker(176, (raw, blocks, { quants, scales }) => {
  for (let block = 0, at = 0; block < blocks; block++, at += 176) {
    scales[13 * block] = raw.getUint32(at, true);
    unpackPairs(raw, at + 4, scales, 13 * block + 1);
    splitBits(raw, at + 16, scales, 13 * block + 5);
    for (let two = 0; two < 4; two++) splitNibbles(raw, at + 48 + 32 * two, quants, 32 * block + 8 * two, 4);
  }
});

/** File: 128 bytes of low nibbles, 64 bytes of two high bits for each column, 16 signed scales, f16 scale. */
export const packQ6K = blockPacker(210, (raw, blocks, { quants, scales }) => {
  for (let block = 0, at = 0; block < blocks; block++, at += 210) {
    const group = 21 * block;
    scales[group] = raw.getUint16(at + 208, true);
    for (let w = 0; w < 4; w++) scales[group + 1 + w] = raw.getUint32(at + 192 + 4 * w, true);
    for (let half = 0; half < 2; half++) {
      splitPairs(raw, at + 128 + 32 * half, scales, group + 5 + 8 * half);
      const to = 32 * block + 16 * half;
      // Low nibbles of 32 bytes belong to block 0 of the half and high nibbles to block 2; then to blocks 1 and 3.
      splitNibbles(raw, at + 64 * half, quants, to, 8);
      splitNibbles(raw, at + 64 * half + 32, quants, to + 4, 8);
    }
  }
});
