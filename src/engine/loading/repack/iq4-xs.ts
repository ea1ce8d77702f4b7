/** ggml's IQ4_XS: superblocks of 256 columns with unchanged nibbles. A group of scales is a superblock. */
import { blockPacker } from './packer.ts';

/**
 * File: f16 scale; the upper two bits of eight 6-bit scales (offset 32) in a u16; the lower four bits in 4 bytes; 128
 * bytes of nibbles. On the GPU, the eight scales are signed bytes.
 */
export const packIq4Xs = blockPacker(136, (raw, blocks, { quants, scales }) => {
  const bytes = new Int8Array(scales.buffer);
  const quants64 = new BigUint64Array(quants.buffer);
  for (let block = 0, at = 0; block < blocks; block++, at += 136) {
    scales[3 * block] = raw.getUint16(at, true);
    const upper = raw.getUint16(at + 2, true);
    const lower = raw.getUint32(at + 4, true);
    const to = 12 * block + 4;
    for (let s = 0; s < 8; s++) {
      bytes[to + s] = (((lower >>> (4 * s)) & 15) | (((upper >>> (2 * s)) & 3) << 4)) - 32;
    }
    for (let n = 0; n < 16; n++) quants64[16 * block + n] = raw.getBigUint64(at + 8 + 8 * n, true);
  }
});
