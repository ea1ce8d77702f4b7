import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import type { Keys } from '../keys.ts';
import { windowOf, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors, headNorms } from './decoder-tensors.ts';

const defaults = {
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  sliding_window: 4096,
  max_window_layers: 28,
  tie_word_embeddings: false,
};

/** More than any model has: before a list of them is made. */
const mostLayers = 1 << 16;

/** Which layers slide where sliding is switched on: those listed, or all but the first ones. */
const slidingLayers = (config: Config): boolean[] => {
  const layers = config.count('num_hidden_layers');
  if (layers > mostLayers) {
    config.refuse(`num_hidden_layers must be at most ${mostLayers}, got ${layers}`);
    return [];
  }
  const kinds = config.get('layer_types');
  if (kinds === undefined) {
    const first = config.number('max_window_layers');
    return Array.from({ length: layers }, (_, layer) => layer >= first);
  }
  const known = (kind: unknown) => kind === 'sliding_attention' || kind === 'full_attention';
  if (!Array.isArray(kinds) || kinds.length !== layers || !kinds.every(known)) {
    config.refuse('layer_types must hold sliding_attention or full_attention for each layer');
    return [];
  }
  return kinds.map((kind) => kind === 'sliding_attention');
};

/** llama.cpp's converter loses the window; here it is written as for models whose layers take turns. */
const metadata = (config: Config, keys: Keys): void => {
  writeDecoder(config, keys);
  const window = config.get('use_sliding_window') === true ? windowOf(config) : undefined;
  if (window === undefined) return;
  keys.set('attention.sliding_window', window);
  keys.set('attention.sliding_window_pattern', slidingLayers(config));
};

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
