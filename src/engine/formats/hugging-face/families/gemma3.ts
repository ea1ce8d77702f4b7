import type { ModelConfig } from '../config.ts';
import type { ModelFamily, TargetTensor } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { writeCommon, writeRope } from './common.ts';
import { decoderTensors, multimodalPrefixes } from './decoder-tensors.ts';

/** Five sliding-window layers, then one with full attention. GGUF has no key for this period. */
const slidingPeriod = 6;

/** Gemma's RMSNorm multiplies by 1 + the stored weight. */
const norm = (name: string): TargetTensor => ({ name, addend: 1 });

const tensors = {
  ...decoderTensors,
  norm: norm('output_norm'),
  'layers.#.input_layernorm': norm('blk.#.attn_norm'),
  'layers.#.self_attn.q_norm': norm('blk.#.attn_q_norm'),
  'layers.#.self_attn.k_norm': norm('blk.#.attn_k_norm'),
  'layers.#.post_attention_layernorm': norm('blk.#.post_attention_norm'),
  'layers.#.pre_feedforward_layernorm': norm('blk.#.ffn_norm'),
  'layers.#.post_feedforward_layernorm': norm('blk.#.post_ffw_norm'),
};

const checkLayers = (config: ModelConfig): void => {
  const kinds = config.get('layer_types');
  const expectedKind = (layer: number) =>
    (layer + 1) % slidingPeriod === 0 ? 'full_attention' : 'sliding_attention';
  if (kinds === undefined) config.allowOnly('sliding_window_pattern', slidingPeriod);
  else if (!Array.isArray(kinds) || kinds.some((kind, layer) => kind !== expectedKind(layer))) {
    config.addProblem(`layer_types must have full_attention in every ${slidingPeriod}th layer and no other`);
  }
};

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void => {
  config.allowOnly('hidden_activation', 'gelu_pytorch_tanh');
  checkLayers(config);
  config.allowOnly('attn_logit_softcapping');
  writeCommon(config, writer);
  writeRope(config, writer);
  // Attention is scaled by the head width in all models but the 27B one.
  const queryScaleDim = config.number('query_pre_attn_scalar');
  if (queryScaleDim !== config.number('head_dim'))
    writer.setFloat('attention.scale', 1 / Math.sqrt(queryScaleDim));
  writer.setFloat('final_logit_softcapping', config.optionalNumber('final_logit_softcapping'));
  writer.set('attention.sliding_window', config.count('sliding_window'));
};

/** Gemma 3, and the text model of its multimodal variants. */
export const gemma3: ModelFamily = {
  architecture: 'gemma3',
  defaults: {
    vocab_size: 262_208,
    hidden_size: 2304,
    intermediate_size: 9216,
    num_hidden_layers: 26,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    query_pre_attn_scalar: 256,
    sliding_window: 4096,
    sliding_window_pattern: slidingPeriod,
    rope_theta: 1_000_000,
    rope_local_base_freq: 10_000,
    tie_word_embeddings: true,
  },
  prefixes: multimodalPrefixes,
  ignoredTensors: /^(model\.)?(vision_tower|multi_modal_projector)\./,
  tensors,
  writeMetadata(config, writer) {
    config.allowOnly('use_bidirectional_attention', false);
    writeMetadata(config, writer);
  },
};

/** EmbeddingGemma: bidirectional attention, pooling, then dense layers. */
export const gemmaEmbedding: ModelFamily = {
  ...gemma3,
  architecture: 'gemma-embedding',
  tensors: { ...tensors, dense_2: 'dense_2', dense_3: 'dense_3' },
  writeMetadata(config, writer) {
    config.allowOnly('use_bidirectional_attention', true);
    writeMetadata(config, writer);
  },
};
