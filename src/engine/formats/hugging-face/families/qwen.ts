import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import type { Keys } from '../keys.ts';
import { windowOf, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors, headNorms } from './decoder-tensors.ts';
import { writeExperts } from './experts.ts';
import { kindsOfLayers, layersOf } from './layer-kinds.ts';

const defaults = {
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  sliding_window: 4096,
  max_window_layers: 28,
  tie_word_embeddings: false,
};

/** Which layers have a sliding window when it is enabled: those in `layer_types`, or all from `max_window_layers`. */
const slidingLayers = (config: Config): boolean[] => {
  const kinds = kindsOfLayers(config, ['sliding_attention', 'full_attention']);
  if (kinds) return kinds.map((kind) => kind === 'sliding_attention');
  const first = config.number('max_window_layers');
  return Array.from({ length: layersOf(config) }, (_, layer) => layer >= first);
};

/** llama.cpp's converter drops the window. This writes it with the keys of models with alternating layers. */
const writeQwen = (config: Config, keys: Keys, slides: (config: Config) => boolean[]): void => {
  writeDecoder(config, keys);
  const window = config.get('use_sliding_window') === true ? windowOf(config) : undefined;
  if (window === undefined) return;
  keys.set('attention.sliding_window', window);
  keys.set('attention.sliding_window_pattern', slides(config));
};

const metadata = (config: Config, keys: Keys): void => writeQwen(config, keys, slidingLayers);

export const qwen2: Family = {
  architecture: 'qwen2',
  defaults,
  prefixes: decoderPrefixes,
  tensors: decoderTensors,
  metadata,
};

export const qwen3: Family = {
  architecture: 'qwen3',
  defaults: { ...defaults, head_dim: 128 },
  prefixes: decoderPrefixes,
  tensors: { ...decoderTensors, ...headNorms },
  metadata,
};

/** Experts in all layers; a sliding window, when enabled, in all layers too. */
export const qwen3moe: Family = {
  architecture: 'qwen3moe',
  defaults: {
    ...defaults,
    num_key_value_heads: 4,
    moe_intermediate_size: 768,
    num_local_experts: 128,
    num_experts_per_tok: 8,
    norm_topk_prob: false,
  },
  prefixes: decoderPrefixes,
  tensors: {
    ...decoderTensors,
    ...headNorms,
    'layers.#.mlp.gate': { name: 'blk.#.ffn_gate_inp', float: true },
  },
  experts: { at: 'layers.#.mlp.experts.', gateUp: 'halves' },
  metadata(config, keys) {
    config.expect('decoder_sparse_step', 1);
    const dense = config.get('mlp_only_layers');
    if (Array.isArray(dense) && dense.length > 0) {
      config.refuse(`mlp_only_layers ${JSON.stringify(dense)} is not supported (supported: none)`);
    }
    writeQwen(config, keys, () => Array.from({ length: layersOf(config) }, () => true));
    writeExperts(config, keys, config.count('moe_intermediate_size'));
    // GGUF implies that expert weights are normalized to a sum of 1.
    if (config.get('norm_topk_prob') !== true) keys.set('expert_weights_norm', false);
  },
};
