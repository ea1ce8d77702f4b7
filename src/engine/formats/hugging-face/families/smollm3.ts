import type { Family } from '../family.ts';
import { headDimOf } from './common.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { pairedTensors, ropeFreqs, writeLlama } from './llama.ts';

/** Every fourth layer has no rotary embedding. GGUF has no key for this interval. */
const unrotatedEvery = 4;

export const smollm3: Family = {
  architecture: 'smollm3',
  defaults: {
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 2_000_000,
    tie_word_embeddings: true,
    no_rope_layer_interval: unrotatedEvery,
  },
  prefixes: decoderPrefixes,
  tensors: pairedTensors,
  metadata(config, keys) {
    config.expect('use_sliding_window', false);
    const rotates = config.get('no_rope_layers');
    if (rotates === undefined) config.expect('no_rope_layer_interval', unrotatedEvery);
    else if (
      !Array.isArray(rotates) ||
      rotates.some((one, layer) => Boolean(one) !== (layer + 1) % unrotatedEvery > 0)
    ) {
      config.refuse(`no_rope_layers must disable every ${unrotatedEvery}th layer and no other`);
    }
    writeLlama(config, keys, headDimOf(config));
  },
  vectors: (config) => ropeFreqs(config, headDimOf(config)),
};
