import { buildDecoder } from './decoder.ts';
import { expertsOf } from './experts.ts';
import { patternOf, windowOf } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/**
 * OpenAI's gpt-oss: experts in every layer, attention sinks, a sliding window in every other layer starting with the
 * first, biases everywhere.
 */
export const gptOss: Architecture = {
  async build(file) {
    // Files without this key predate it; the model's own configuration has the value false.
    const ropes = [await ropeOf(file, 'neox', { wholeYarn: false })];
    const slides = patternOf(file, 'attention.sliding_window_pattern', 2);
    const window = windowOf(file);
    return buildDecoder(file, {
      ropes,
      layer: (n) => ({ rope: 0, window: slides(n) ? window : 0 }),
      sinks: true,
      ffnNorm: 'post_attention_norm',
      experts: { shape: expertsOf(file), shares: 'of_chosen', activation: 'swiglu_oai' },
    });
  },
};
