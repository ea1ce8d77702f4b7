import { isRecord } from '../../../../util/json.ts';
import type { Config } from '../config.ts';
import type { Family, Target } from '../family.ts';
import type { Keys } from '../keys.ts';
import type { Turns } from '../turned-rows.ts';
import { headDimOf, writeDecoder } from './common.ts';
import { decoderTensors, headNorms, seeingPrefixes } from './decoder-tensors.ts';
import { kindsOfLayers, layersOf } from './layer-kinds.ts';

/** Norms multiply by 1 + the stored weight, except the norms of linear attention. */
const norm = (name: string): Target => ({ name, plus: 1 });

interface LinearHeads {
  readonly keys: number;
  readonly values: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

const linearHeads = (config: Config): LinearHeads => ({
  keys: config.count('linear_num_key_heads'),
  values: config.count('linear_num_value_heads'),
  keyDim: config.count('linear_key_head_dim'),
  valueDim: config.count('linear_value_head_dim'),
});

/**
 * The order of value heads. A checkpoint groups them by the key head that they share; GGUF stores the first value head
 * of every key head, then the second, and so on.
 * @param rowsBefore rows or columns of the query and key heads, which come first
 */
const valueHeads =
  (
    along: Turns['along'],
    size: (heads: LinearHeads) => number,
    before: (heads: LinearHeads) => number = () => 0,
  ) =>
  (config: Config): Turns | undefined => {
    const heads = linearHeads(config);
    const each = heads.values / heads.keys;
    if (each === 1) return undefined;
    return { along, first: before(heads), groups: heads.keys, each, size: size(heads) };
  };

const one = () => 1;
const valueDim = (heads: LinearHeads) => heads.valueDim;
const queriesAndKeys = (heads: LinearHeads) => 2 * heads.keys * heads.keyDim;
const valueRows = (name: string): Target => ({ name, turns: valueHeads('rows', valueDim) });
const headRows = (name: string): Target => ({ name, turns: valueHeads('rows', one) });

/** By default every fourth layer has full attention and the others have linear attention. */
const period = 4;

const recurrentLayers = (config: Config): readonly boolean[] => {
  const kinds = kindsOfLayers(config, ['linear_attention', 'full_attention']);
  if (kinds) return kinds.map((kind) => kind === 'linear_attention');
  const every = config.optionalCount('full_attention_interval') ?? period;
  return Array.from({ length: layersOf(config) }, (_, layer) => (layer + 1) % every !== 0);
};

/** Rotary pairs for each of the four position components (time, height, width, none), which are equal for text. */
const sectionsOf = (given: unknown): Int32Array => {
  const sections = new Int32Array(4);
  sections.set(Array.isArray(given) ? given.slice(0, 4).map(Number) : [11, 11, 10]);
  return sections;
};

const metadata = (config: Config, keys: Keys): void => {
  config.expect('attn_output_gate', true);
  config.expect('attention_bias', false);
  writeDecoder(config, keys);
  const rope = config.object('rope_scaling', 'rope_parameters');
  const nested = isRecord(rope) ? rope : {};
  const turning = nested.partial_rotary_factor ?? config.get('partial_rotary_factor') ?? 0.25;
  if (typeof turning !== 'number' || !(turning > 0 && turning <= 1)) {
    config.refuse(`partial_rotary_factor must be above 0 and at most 1, got ${JSON.stringify(turning)}`);
  } else keys.set('rope.dimension_count', Math.trunc(headDimOf(config) * turning));
  keys.set('rope.dimension_sections', sectionsOf(nested.mrope_section));
  const heads = linearHeads(config);
  if (heads.values % heads.keys !== 0) {
    config.refuse(
      `linear_num_value_heads must be a multiple of linear_num_key_heads, got ${heads.values} and ${heads.keys}`,
    );
  }
  keys.set('ssm.conv_kernel', config.count('linear_conv_kernel_dim'));
  keys.set('ssm.state_size', heads.keyDim);
  keys.set('ssm.group_count', heads.keys);
  keys.set('ssm.time_step_rank', heads.values);
  keys.set('ssm.inner_size', heads.values * heads.valueDim);
  keys.set('attention.recurrent_layers', recurrentLayers(config));
  keys.set('full_attention_interval', config.optionalCount('full_attention_interval') ?? period);
};

/**
 * Qwen3.5 and the text model of its multimodal variants: gated linear attention in most layers, else full attention.
 */
export const qwen3_5: Family = {
  architecture: 'qwen35',
  defaults: {
    vocab_size: 248_320,
    hidden_size: 4096,
    intermediate_size: 12_288,
    num_hidden_layers: 32,
    num_attention_heads: 16,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: false,
    linear_conv_kernel_dim: 4,
    linear_key_head_dim: 128,
    linear_value_head_dim: 128,
    linear_num_key_heads: 16,
    linear_num_value_heads: 32,
  },
  prefixes: seeingPrefixes,
  // The vision tower and the multi-token prediction layers.
  ignored: /^(model\.)?(visual|vision_tower|mtp)\./,
  tensors: {
    ...decoderTensors,
    ...headNorms,
    norm: norm('output_norm'),
    'layers.#.input_layernorm': norm('blk.#.attn_norm'),
    'layers.#.post_attention_layernorm': norm('blk.#.post_attention_norm'),
    'layers.#.self_attn.q_norm': norm('blk.#.attn_q_norm'),
    'layers.#.self_attn.k_norm': norm('blk.#.attn_k_norm'),
    'layers.#.linear_attn.in_proj_qkv': {
      name: 'blk.#.attn_qkv',
      turns: valueHeads('rows', valueDim, queriesAndKeys),
    },
    'layers.#.linear_attn.in_proj_z': valueRows('blk.#.attn_gate'),
    'layers.#.linear_attn.in_proj_a': headRows('blk.#.ssm_alpha'),
    'layers.#.linear_attn.in_proj_b': headRows('blk.#.ssm_beta'),
    'layers.#.linear_attn.conv1d': {
      name: 'blk.#.ssm_conv1d',
      taps: true,
      float: true,
      turns: valueHeads('rows', valueDim, queriesAndKeys),
    },
    'layers.#.linear_attn.norm': 'blk.#.ssm_norm',
    'layers.#.linear_attn.out_proj': { name: 'blk.#.ssm_out', turns: valueHeads('columns', valueDim) },
  },
  bare: {
    'layers.#.linear_attn.A_log': { ...headRows('blk.#.ssm_a'), each: (value) => -Math.exp(value) },
    'layers.#.linear_attn.dt_bias': headRows('blk.#.ssm_dt.bias'),
  },
  metadata,
};
