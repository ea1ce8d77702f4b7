import { buildDecoder } from './decoder.ts';
import { fieldOf, optionalNumber } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/**
 * Granite 3, dense: Llama with scaled embeddings, attention scores, residual additions and logits; logits are
 * divided.
 */
export const granite: Architecture = {
  async build(file) {
    // Some files use no rotary positions at all.
    const rope = fieldOf(file, 'rope.scaling.finetuned') === false ? undefined : 0;
    return buildDecoder(file, {
      ropes: [await ropeOf(file, 'interleaved')],
      layer: () => ({ rope, window: 0 }),
      embeddingScale: optionalNumber(file, 'embedding_scale'),
      attentionScale: optionalNumber(file, 'attention.scale'),
      residualScale: optionalNumber(file, 'residual_scale'),
      logitScale: 1 / (optionalNumber(file, 'logit_scale') ?? 1),
    });
  },
};
