import type { ModelConfig } from '../config.ts';
import type { ModelFamily, TargetTensor } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { headDimOf, maxHeadDim, slidingWindowOf, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors } from './decoder-tensors.ts';
import { llama3Divisors } from './rope.ts';

/** GGUF's llama rotates adjacent rows, so the rows of q and k are interleaved. */
export const interleavedTensors: Readonly<Record<string, string | TargetTensor>> = {
  ...decoderTensors,
  'layers.#.self_attn.q_proj': { name: 'blk.#.attn_q', interleaveHeads: ['num_attention_heads'] },
  'layers.#.self_attn.k_proj': {
    name: 'blk.#.attn_k',
    interleaveHeads: ['num_key_value_heads', 'num_attention_heads'],
  },
};

/** Writes the metadata of Llama and similar models. */
export const writeLlama = (config: ModelConfig, writer: MetadataWriter, headDim: number): void => {
  if (headDim > maxHeadDim)
    config.addProblem(
      `heads of ${headDim} (hidden_size / num_attention_heads, or head_dim) are wider than ${maxHeadDim}`,
    );
  writeDecoder(config, writer);
  writer.set('vocab_size', config.count('vocab_size'));
  writer.set('rope.dimension_count', headDim);
};

export const ropeFreqs = (config: ModelConfig, headDim: number): ReadonlyMap<string, Float32Array> => {
  const divisors = llama3Divisors(config, headDim);
  return new Map(divisors ? [['rope_freqs.weight', divisors]] : []);
};

/** Llama 1 to 3, TinyLlama, SmolLM2. */
export const llama: ModelFamily = {
  architecture: 'llama',
  defaults: {
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: false,
  },
  prefixes: decoderPrefixes,
  tensors: interleavedTensors,
  writeMetadata(config, writer) {
    const headDim = headDimOf(config);
    writeLlama(config, writer, headDim);
    writer.set('attention.key_length', headDim);
    writer.set('attention.value_length', headDim);
  },
  computeVectors: (config) => ropeFreqs(config, headDimOf(config)),
};

/** Every layer has a sliding window unless `sliding_window` is null. llama.cpp's converter drops the window. */
export const mistral: ModelFamily = {
  ...llama,
  defaults: {
    ...llama.defaults,
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    sliding_window: 4096,
  },
  writeMetadata(config, writer) {
    llama.writeMetadata(config, writer);
    writer.set('attention.sliding_window', slidingWindowOf(config));
  },
};
