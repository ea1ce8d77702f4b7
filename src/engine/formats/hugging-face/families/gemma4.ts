import { isRecord, type Json } from '../../../../util/json.ts';
import type { Config } from '../config.ts';
import type { Family } from '../family.ts';
import type { Keys } from '../keys.ts';
import { mostHeadDim, writeCommon } from './common.ts';
import { decoderTensors, headNorms, seeingPrefixes } from './decoder-tensors.ts';
import { kindsOfLayers, layersOf } from './layer-kinds.ts';

const sliding = 'sliding_attention';
const full = 'full_attention';
/** By default every sixth layer has full attention. The last layer always has. */
const period = 6;

const slidingLayers = (config: Config): readonly boolean[] => {
  const layers = layersOf(config);
  const kinds = kindsOfLayers(config, [sliding, full]);
  return Array.from(
    { length: layers },
    (_, layer) => layer !== layers - 1 && (kinds ? kinds[layer] === sliding : (layer + 1) % period !== 0),
  );
};

const ropeDefaults: Readonly<Record<string, Json>> = {
  [sliding]: { rope_type: 'default', rope_theta: 10_000 },
  [full]: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
};

/** The `rope_parameters` of one layer kind. */
const ropeOf = (config: Config, kind: string): Config => {
  const all = config.object('rope_parameters');
  const given = all ? all[kind] : ropeDefaults[kind];
  return config.within(`rope_parameters.${kind}`, isRecord(given) ? given : {});
};

const writeRopes = (config: Config, keys: Keys): void => {
  const [near, far] = [ropeOf(config, sliding), ropeOf(config, full)];
  near.expect('rope_type', 'default');
  near.expect('partial_rotary_factor', 1);
  far.expect('rope_type', 'proportional');
  far.expect('factor', 1);
  const part = far.number('partial_rotary_factor');
  if (part < 0 || part > 1) far.refuse(`partial_rotary_factor must be from 0 to 1, got ${part}`);
  keys.float('rope.freq_base', far.number('rope_theta'));
  keys.float('rope.freq_base_swa', near.number('rope_theta'));
};

/** A frequency divisor that disables the rotation. */
const still = 1e30;

/** Frequency divisors of the layers with full attention: only a fraction of the pairs is rotated. */
const ropeFreqs = (config: Config): Float32Array => {
  const pairs = Math.trunc(config.count('global_head_dim') / 2);
  const part = ropeOf(config, full).number('partial_rotary_factor');
  return new Float32Array(pairs).fill(still).fill(1, 0, Math.trunc(part * pairs));
};

const writeLayers = (config: Config, keys: Keys): void => {
  const layers = layersOf(config);
  const shared = config.optional('num_kv_shared_layers') ?? 0;
  if (!Number.isSafeInteger(shared) || shared < 0 || shared >= layers) {
    config.refuse(`num_kv_shared_layers must be a whole number >= 0 and below ${layers}, got ${shared}`);
  }
  keys.set('attention.shared_kv_layers', shared);
  const slides = slidingLayers(config);
  keys.set('attention.sliding_window_pattern', slides);
  keys.set('attention.sliding_window', config.count('sliding_window'));
  if (config.get('use_double_wide_mlp') !== true) return;
  const width = config.count('intermediate_size');
  const widths = slides.map((_, layer) => (layer < layers - shared ? width : 2 * width));
  keys.set('feed_forward_length', Int32Array.from(widths));
};

const metadata = (config: Config, keys: Keys): void => {
  config.expect('hidden_activation', 'gelu_pytorch_tanh');
  config.expect('attention_bias', false);
  // Only image tokens have bidirectional attention.
  config.expect('use_bidirectional_attention', 'vision');
  config.expect('enable_moe_block', false);
  config.expect('attention_k_eq_v', false);
  writeCommon(config, keys);
  writeRopes(config, keys);
  writeLayers(config, keys);
  const [head, globalHead] = [config.count('head_dim'), config.count('global_head_dim')];
  if (globalHead > mostHeadDim)
    config.refuse(`global_head_dim must be at most ${mostHeadDim}, got ${globalHead}`);
  for (const name of ['attention.key_length', 'attention.value_length', 'rope.dimension_count']) {
    keys.set(name, globalHead);
    keys.set(`${name}_swa`, head);
  }
  keys.set('embedding_length_per_layer_input', config.optional('hidden_size_per_layer_input') ?? 0);
  keys.float('final_logit_softcapping', config.optional('final_logit_softcapping'));
};

/** Gemma 4, and the text model of its multimodal variants. */
export const gemma4: Family = {
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
  prefixes: seeingPrefixes,
  ignored: /^(model\.)?(vision_tower|audio_tower|embed_vision|embed_audio)\./,
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
  bare: { 'layers.#.layer_scalar': 'blk.#.layer_output_scale.weight' },
  metadata,
  vectors: (config) => new Map([['rope_freqs.weight', ropeFreqs(config)]]),
};
