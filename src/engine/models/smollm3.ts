import { buildDecoder } from './decoder.ts';
import { patternOf } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** SmolLM3: Llama without rotary positions in every fourth layer. */
export const smollm3: Architecture = {
  async build(file) {
    const turns = patternOf(file, 'attention.rope_pattern', 4);
    const ropes = [await ropeOf(file, 'interleaved')];
    return buildDecoder(file, {
      ropes,
      layer: (n) => ({ rope: turns(n) ? 0 : undefined, window: 0 }),
    });
  },
};
