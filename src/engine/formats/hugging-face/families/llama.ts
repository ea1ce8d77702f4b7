import type { Config } from '../config.ts';
import type { Family, Target } from '../family.ts';
import type { Keys } from '../keys.ts';
import { headDimOf, mostHeadDim, windowOf, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors } from './decoder-tensors.ts';
import { llama3Divisors } from './rope.ts';

/** GGUF's llama rotates adjacent rows, so the rows of q and k are interleaved. */
export const pairedTensors: Readonly<Record<string, string | Target>> = {
  ...decoderTensors,
  'layers.#.self_attn.q_proj': { name: 'blk.#.attn_q', pairUp: ['num_attention_heads'] },
  'layers.#.self_attn.k_proj': {
    name: 'blk.#.attn_k',
    pairUp: ['num_key_value_heads', 'num_attention_heads'],
  },
};

/** Writes the metadata of Llama and similar models. */
export const writeLlama = (config: Config, keys: Keys, headDim: number): void => {
  if (headDim > mostHeadDim)
    config.refuse(
      `heads of ${headDim} (hidden_size / num_attention_heads, or head_dim) are wider than ${mostHeadDim}`,
    );
  writeDecoder(config, keys);
  keys.set('vocab_size', config.count('vocab_size'));
  keys.set('rope.dimension_count', headDim);
};

export const ropeFreqs = (config: Config, headDim: number): ReadonlyMap<string, Float32Array> => {
  const divisors = llama3Divisors(config, headDim);
  return new Map(divisors ? [['rope_freqs.weight', divisors]] : []);
};

/** Llama 1 to 3, TinyLlama, SmolLM2. */
export const llama: Family = {
  architecture: 'llama',
  defaults: {
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: false,
  },
  prefixes: decoderPrefixes,
  tensors: pairedTensors,
  metadata(config, keys) {
    const headDim = headDimOf(config);
    writeLlama(config, keys, headDim);
    keys.set('attention.key_length', headDim);
    keys.set('attention.value_length', headDim);
  },
  vectors: (config) => ropeFreqs(config, headDimOf(config)),
};

/** Every layer has a sliding window unless `sliding_window` is null. llama.cpp's converter drops the window. */
export const mistral: Family = {
  ...llama,
  defaults: {
    ...llama.defaults,
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
  },
  metadata(config, keys) {
    llama.metadata(config, keys);
    keys.set('attention.sliding_window', windowOf(config));
  },
};
