import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { slidingWindowOf, writeDecoder } from './common.ts';
import { decoderPrefixes, decoderTensors, headNorms } from './decoder-tensors.ts';
import { writeRankHead } from './rank-head.ts';
import { writeExperts } from './write-experts.ts';
import { layerKindsOf, layerCountOf } from './layer-kinds.ts';

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
const slidingLayers = (config: ModelConfig): boolean[] => {
  const kinds = layerKindsOf(config, ['sliding_attention', 'full_attention']);
  if (kinds) return kinds.map((kind) => kind === 'sliding_attention');
  const first = config.number('max_window_layers');
  return Array.from({ length: layerCountOf(config) }, (_, layer) => layer >= first);
};

/** llama.cpp's converter drops the window. This writes it with the keys of models with alternating layers. */
const writeQwen = (
  config: ModelConfig,
  writer: MetadataWriter,
  findSlidingLayers: (config: ModelConfig) => boolean[],
): void => {
  writeDecoder(config, writer);
  const window = config.get('use_sliding_window') === true ? slidingWindowOf(config) : undefined;
  if (window === undefined) return;
  writer.set('attention.sliding_window', window);
  writer.set('attention.sliding_window_pattern', findSlidingLayers(config));
};

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void =>
  writeQwen(config, writer, slidingLayers);

export const qwen2: ModelFamily = {
  architecture: 'qwen2',
  defaults,
  prefixes: decoderPrefixes,
  tensors: decoderTensors,
  writeMetadata,
};

export const qwen3: ModelFamily = {
  architecture: 'qwen3',
  defaults: { ...defaults, head_dim: 128 },
  prefixes: decoderPrefixes,
  tensors: { ...decoderTensors, ...headNorms },
  writeMetadata,
};

/** Qwen3-Reranker with a head of its own, of one label: the difference of its rows of yes and no. */
export const qwen3Reranker: ModelFamily = {
  ...qwen3,
  tensors: { ...qwen3.tensors, score: 'cls.output' },
  writeMetadata(config, writer) {
    writeMetadata(config, writer);
    writeRankHead(config, writer);
  },
};

/** Experts in all layers; a sliding window, when enabled, in all layers too. */
export const qwen3moe: ModelFamily = {
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
    'layers.#.mlp.gate': { name: 'blk.#.ffn_gate_inp', asFloat: true },
  },
  experts: { namePrefix: 'layers.#.mlp.experts.', gateUpOrder: 'halves' },
  writeMetadata(config, writer) {
    config.allowOnly('decoder_sparse_step', 1);
    const denseLayers = config.get('mlp_only_layers');
    if (Array.isArray(denseLayers) && denseLayers.length > 0) {
      config.addProblem(`mlp_only_layers ${JSON.stringify(denseLayers)} is not supported (supported: none)`);
    }
    writeQwen(config, writer, () => Array.from({ length: layerCountOf(config) }, () => true));
    writeExperts(config, writer, config.count('moe_intermediate_size'));
    // GGUF implies that expert weights are normalized to a sum of 1.
    if (config.get('norm_topk_prob') !== true) writer.set('expert_weights_norm', false);
  },
};
