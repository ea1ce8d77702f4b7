import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { pairedTensors, ropeFreqs, writeLlama } from './llama.ts';

/** The head width. Granite has no separate `head_dim`. */
const headDimOf = (config: Config): number =>
  config.number('hidden_size') / config.number('num_attention_heads');

/** Granite 3: Llama with four multipliers. */
export const granite: Family = {
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
  tensors: pairedTensors,
  metadata(config, keys) {
    const headDim = headDimOf(config);
    config.expect('head_dim', headDim);
    writeLlama(config, keys, headDim);
    keys.float('attention.scale', config.number('attention_multiplier'));
    keys.float('embedding_scale', config.number('embedding_multiplier'));
    keys.float('residual_scale', config.number('residual_multiplier'));
    keys.float('logit_scale', config.number('logits_scaling'));
  },
  vectors: (config) => ropeFreqs(config, headDimOf(config)),
};
