import { buildDecoder } from './decoder.ts';
import { readExpertShape } from './experts.ts';
import { readLayerPattern, readWindow } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/**
 * OpenAI's gpt-oss: experts in every layer, attention sinks, a sliding window in every other layer starting with the
 * first, biases everywhere.
 */
export const gptOss: Architecture = {
  async build(file) {
    // Files without this key predate it; the model's own configuration has the value false.
    const ropes = [await readRope(file, 'neox', { wholeYarn: false })];
    const isSliding = readLayerPattern(file, 'attention.sliding_window_pattern', 2);
    const window = readWindow(file);
    return buildDecoder(file, {
      ropes,
      layer: (n) => ({ rope: 0, window: isSliding(n) ? window : 0 }),
      sinks: true,
      ffnNorm: 'post_attention_norm',
      experts: { shape: readExpertShape(file), shares: 'of_chosen', activation: 'swiglu_oai' },
    });
  },
};
