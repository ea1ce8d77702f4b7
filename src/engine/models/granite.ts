import { buildDecoder } from './decoder.ts';
import { metadataValue, readOptionalNumber } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/**
 * Granite 3, dense: Llama with scaled embeddings, attention scores, residual additions and logits; logits are
 * divided.
 */
export const granite: Architecture = {
  async build(file) {
    // Some files use no rotary positions at all.
    const rope = metadataValue(file, 'rope.scaling.finetuned') === false ? undefined : 0;
    return buildDecoder(file, {
      ropes: [await readRope(file, 'interleaved')],
      layer: () => ({ rope, window: 0 }),
      embeddingScale: readOptionalNumber(file, 'embedding_scale'),
      attentionScale: readOptionalNumber(file, 'attention.scale'),
      residualScale: readOptionalNumber(file, 'residual_scale'),
      logitScale: 1 / (readOptionalNumber(file, 'logit_scale') ?? 1),
    });
  },
};
