import { buildDecoder } from './decoder.ts';
import { readLayerPattern } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** SmolLM3: Llama without rotary positions in every fourth layer. */
export const smollm3: Architecture = {
  async build(file) {
    const isRotated = readLayerPattern(file, 'attention.rope_pattern', 4);
    const ropes = [await readRope(file, 'interleaved')];
    return buildDecoder(file, {
      ropes,
      layer: (n) => ({ rope: isRotated(n) ? 0 : undefined, window: 0 }),
    });
  },
};
