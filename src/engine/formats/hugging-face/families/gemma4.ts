import { isRecord, type Json } from '../../../../util/json.ts';
import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { maxHeadDim, writeCommon } from './common.ts';
import { decoderTensors, headNorms, multimodalPrefixes } from './decoder-tensors.ts';
import { layerKindsOf, layerCountOf } from './layer-kinds.ts';

const slidingKind = 'sliding_attention';
const fullKind = 'full_attention';
/** By default every sixth layer has full attention. The last layer always has. */
const fullAttentionPeriod = 6;

const slidingLayers = (config: ModelConfig): readonly boolean[] => {
  const layers = layerCountOf(config);
  const kinds = layerKindsOf(config, [slidingKind, fullKind]);
  return Array.from(
    { length: layers },
    (_, layer) =>
      layer !== layers - 1 &&
      (kinds ? kinds[layer] === slidingKind : (layer + 1) % fullAttentionPeriod !== 0),
  );
};

const ropeDefaults: Readonly<Record<string, Json>> = {
  [slidingKind]: { rope_type: 'default', rope_theta: 10_000 },
  [fullKind]: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
};

/** The `rope_parameters` of one layer kind. */
const ropeOf = (config: ModelConfig, kind: string): ModelConfig => {
  const all = config.object('rope_parameters');
  const parameters = all ? all[kind] : ropeDefaults[kind];
  return config.section(`rope_parameters.${kind}`, isRecord(parameters) ? parameters : {});
};

const writeRopes = (config: ModelConfig, writer: MetadataWriter): void => {
  const [slidingRope, fullRope] = [ropeOf(config, slidingKind), ropeOf(config, fullKind)];
  slidingRope.allowOnly('rope_type', 'default');
  slidingRope.allowOnly('partial_rotary_factor', 1);
  fullRope.allowOnly('rope_type', 'proportional');
  fullRope.allowOnly('factor', 1);
  const rotatedFraction = fullRope.number('partial_rotary_factor');
  if (rotatedFraction < 0 || rotatedFraction > 1)
    fullRope.addProblem(`partial_rotary_factor must be from 0 to 1, got ${rotatedFraction}`);
  writer.setFloat('rope.freq_base', fullRope.number('rope_theta'));
  writer.setFloat('rope.freq_base_swa', slidingRope.number('rope_theta'));
};

/** A frequency divisor that disables the rotation. */
const noRotationDivisor = 1e30;

/** Frequency divisors of the layers with full attention: only a fraction of the pairs is rotated. */
const ropeFreqs = (config: ModelConfig): Float32Array => {
  const pairs = Math.trunc(config.count('global_head_dim') / 2);
  const rotatedFraction = ropeOf(config, fullKind).number('partial_rotary_factor');
  return new Float32Array(pairs).fill(noRotationDivisor).fill(1, 0, Math.trunc(rotatedFraction * pairs));
};

const writeLayers = (config: ModelConfig, writer: MetadataWriter): void => {
  const layers = layerCountOf(config);
  const shared = config.optionalNumber('num_kv_shared_layers') ?? 0;
  if (!Number.isSafeInteger(shared) || shared < 0 || shared >= layers) {
    config.addProblem(`num_kv_shared_layers must be a whole number >= 0 and below ${layers}, got ${shared}`);
  }
  writer.set('attention.shared_kv_layers', shared);
  const isSliding = slidingLayers(config);
  writer.set('attention.sliding_window_pattern', isSliding);
  writer.set('attention.sliding_window', config.count('sliding_window'));
  if (config.get('use_double_wide_mlp') !== true) return;
  const width = config.count('intermediate_size');
  const widths = isSliding.map((_, layer) => (layer < layers - shared ? width : 2 * width));
  writer.set('feed_forward_length', Int32Array.from(widths));
};

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void => {
  config.allowOnly('hidden_activation', 'gelu_pytorch_tanh');
  config.allowOnly('attention_bias', false);
  // Only image tokens have bidirectional attention.
  config.allowOnly('use_bidirectional_attention', 'vision');
  config.allowOnly('enable_moe_block', false);
  config.allowOnly('attention_k_eq_v', false);
  writeCommon(config, writer);
  writeRopes(config, writer);
  writeLayers(config, writer);
  const [headDim, globalHeadDim] = [config.count('head_dim'), config.count('global_head_dim')];
  if (globalHeadDim > maxHeadDim)
    config.addProblem(`global_head_dim must be at most ${maxHeadDim}, got ${globalHeadDim}`);
  for (const name of ['attention.key_length', 'attention.value_length', 'rope.dimension_count']) {
    writer.set(name, globalHeadDim);
    writer.set(`${name}_swa`, headDim);
  }
  writer.set('embedding_length_per_layer_input', config.optionalNumber('hidden_size_per_layer_input') ?? 0);
  writer.setFloat('final_logit_softcapping', config.optionalNumber('final_logit_softcapping'));
};

/** Gemma 4, and the text model of its multimodal variants. */
export const gemma4: ModelFamily = {
  architecture: 'gemma4',
  defaults: {
    vocab_size: 262_144,
    hidden_size: 2304,
    intermediate_size: 9216,
    num_hidden_layers: 30,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    global_head_dim: 512,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    sliding_window: 512,
    hidden_size_per_layer_input: 256,
    tie_word_embeddings: true,
  },
  prefixes: multimodalPrefixes,
  ignoredTensors: /^(model\.)?(vision_tower|audio_tower|embed_vision|embed_audio)\./,
  tensors: {
    ...decoderTensors,
    ...headNorms,
    embed_tokens_per_layer: 'per_layer_token_embd',
    per_layer_model_projection: 'per_layer_model_proj',
    per_layer_projection_norm: 'per_layer_proj_norm',
    'layers.#.post_attention_layernorm': 'blk.#.post_attention_norm',
    'layers.#.pre_feedforward_layernorm': 'blk.#.ffn_norm',
    'layers.#.post_feedforward_layernorm': 'blk.#.post_ffw_norm',
    'layers.#.per_layer_input_gate': 'blk.#.inp_gate',
    'layers.#.per_layer_projection': 'blk.#.proj',
    'layers.#.post_per_layer_input_norm': 'blk.#.post_norm',
  },
  unsuffixedTensors: { 'layers.#.layer_scalar': 'blk.#.layer_output_scale.weight' },
  writeMetadata,
  computeVectors: (config) => new Map([['rope_freqs.weight', ropeFreqs(config)]]),
};
