import { buildDecoder } from './decoder.ts';
import { readWindow } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/**
 * Phi 3, 3.5 and Phi 4 mini: q, k and v in one matrix, gate and up in another; partially rotated heads (Phi 4 mini),
 * with LongRoPE in files for long contexts. A sliding window applies to all layers; 0 means none.
 */
export const phi3: Architecture = {
  async build(file) {
    const window = readWindow(file);
    const ropes = [await readRope(file, 'neox')];
    return buildDecoder(file, { ropes, layer: () => ({ rope: 0, window }) });
  },
};
