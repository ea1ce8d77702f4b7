import { buildDecoder } from './decoder.ts';
import { readListedWindows } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** Qwen 2 and 2.5: biases on q, k and v; a sliding window in the layers that the file lists. */
export const qwen2: Architecture = {
  async build(file) {
    const window = readListedWindows(file);
    const ropes = [await readRope(file, 'neox')];
    return buildDecoder(file, { ropes, layer: (n) => ({ rope: 0, window: window(n) }) });
  },
};
