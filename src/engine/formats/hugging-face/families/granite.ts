import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { interleavedTensors, ropeFreqs, writeLlama } from './llama.ts';

/** The head width. Granite has no separate `head_dim`. */
const headDimOf = (config: ModelConfig): number =>
  config.number('hidden_size') / config.number('num_attention_heads');

/** Granite 3: Llama with four multipliers. */
export const granite: ModelFamily = {
  architecture: 'granite',
  defaults: {
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: false,
    embedding_multiplier: 1,
    residual_multiplier: 1,
    attention_multiplier: 1,
    logits_scaling: 1,
  },
  prefixes: decoderPrefixes,
  tensors: interleavedTensors,
  writeMetadata(config, writer) {
    const headDim = headDimOf(config);
    config.allowOnly('head_dim', headDim);
    writeLlama(config, writer, headDim);
    writer.setFloat('attention.scale', config.number('attention_multiplier'));
    writer.setFloat('embedding_scale', config.number('embedding_multiplier'));
    writer.setFloat('residual_scale', config.number('residual_multiplier'));
    writer.setFloat('logit_scale', config.number('logits_scaling'));
  },
  computeVectors: (config) => ropeFreqs(config, headDimOf(config)),
};
