import { buildDecoder } from './decoder.ts';
import { listedWindows } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** Qwen 2 and 2.5: biases on q, k and v; a sliding window in the layers that the file lists. */
export const qwen2: Architecture = {
  async build(file) {
    const window = listedWindows(file);
    const ropes = [await ropeOf(file, 'neox')];
    return buildDecoder(file, { ropes, layer: (n) => ({ rope: 0, window: window(n) }) });
  },
};
