import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import { windowNote, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors, headNorms } from './decoder-tensors.ts';

const defaults = {
  num_key_value_heads: 32,
  max_position_embeddings: 32_768,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  max_window_layers: 28,
  tie_word_embeddings: false,
};

/** Layers from this one on slide, when sliding is switched on at all. */
const notes = (config: Config): string[] => {
  const slides = config.number('max_window_layers') < config.number('num_hidden_layers');
  return config.get('use_sliding_window') === true && slides ? windowNote(config) : [];
};

export const qwen2: Family = {
  architecture: 'qwen2',
  defaults,
  prefixes: decoderPrefixes,
  tensors: decoderTensors,
  metadata: writeDecoder,
  notes,
};

export const qwen3: Family = {
  architecture: 'qwen3',
  defaults: { ...defaults, head_dim: 128 },
  prefixes: decoderPrefixes,
  tensors: { ...decoderTensors, ...headNorms },
  metadata: writeDecoder,
  notes,
};
