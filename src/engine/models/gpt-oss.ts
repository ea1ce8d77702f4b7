import { buildDecoder } from './decoder.ts';
import { expertsOf } from './experts.ts';
import { patternOf, windowOf } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/**
 * OpenAI's gpt-oss: experts in every layer, a number a head that takes part in each softmax, a window in every other layer
 * from the first on, biases everywhere.
 */
export const gptOss: Architecture = {
  async build(file) {
    // Files that do not say so were made before the key was; the model's own configuration does.
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
