import type { ModelFamily } from '../family.ts';
import { headDimOf } from './common.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { interleavedTensors, ropeFreqs, writeLlama } from './llama.ts';

/** Every fourth layer has no rotary embedding. GGUF has no key for this interval. */
const noRopeInterval = 4;

export const smollm3: ModelFamily = {
  architecture: 'smollm3',
  defaults: {
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 2_000_000,
    tie_word_embeddings: true,
    no_rope_layer_interval: noRopeInterval,
  },
  prefixes: decoderPrefixes,
  tensors: interleavedTensors,
  writeMetadata(config, writer) {
    config.allowOnly('use_sliding_window', false);
    const ropeLayers = config.get('no_rope_layers');
    if (ropeLayers === undefined) config.allowOnly('no_rope_layer_interval', noRopeInterval);
    else if (
      !Array.isArray(ropeLayers) ||
      ropeLayers.some((usesRope, layer) => Boolean(usesRope) !== (layer + 1) % noRopeInterval > 0)
    ) {
      config.addProblem(`no_rope_layers must disable every ${noRopeInterval}th layer and no other`);
    }
    writeLlama(config, writer, headDimOf(config));
  },
  computeVectors: (config) => ropeFreqs(config, headDimOf(config)),
};
