import { isRecord } from '../../../../util/json.ts';
import type { ModelConfig } from '../config.ts';
import type { ModelFamily, TargetTensor } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import type { HeadOrder } from '../head-order.ts';
import { headDimOf, writeDecoder } from './common.ts';
import { decoderTensors, headNorms, multimodalPrefixes } from './decoder-tensors.ts';
import { layerKindsOf, layerCountOf } from './layer-kinds.ts';

/** Norms multiply by 1 + the stored weight, except the norms of linear attention. */
const norm = (name: string): TargetTensor => ({ name, addend: 1 });

interface LinearHeads {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

const linearHeads = (config: ModelConfig): LinearHeads => ({
  keyHeads: config.count('linear_num_key_heads'),
  valueHeads: config.count('linear_num_value_heads'),
  keyDim: config.count('linear_key_head_dim'),
  valueDim: config.count('linear_value_head_dim'),
});

/**
 * The order of value heads. A checkpoint groups them by the key head that they share; GGUF stores the first value head
 * of every key head, then the second, and so on.
 * @param rowsBefore rows or columns of the query and key heads, which come first
 */
const valueHeadOrder =
  (
    axis: HeadOrder['axis'],
    headSizeOf: (heads: LinearHeads) => number,
    rowsBefore: (heads: LinearHeads) => number = () => 0,
  ) =>
  (config: ModelConfig): HeadOrder | undefined => {
    const heads = linearHeads(config);
    const headsPerGroup = heads.valueHeads / heads.keyHeads;
    if (headsPerGroup === 1) return undefined;
    return {
      axis,
      first: rowsBefore(heads),
      groups: heads.keyHeads,
      headsPerGroup,
      headSize: headSizeOf(heads),
    };
  };

const oneRow = () => 1;
const valueDim = (heads: LinearHeads) => heads.valueDim;
const queriesAndKeys = (heads: LinearHeads) => 2 * heads.keyHeads * heads.keyDim;
const valueRows = (name: string): TargetTensor => ({ name, reorderHeads: valueHeadOrder('rows', valueDim) });
const headRows = (name: string): TargetTensor => ({ name, reorderHeads: valueHeadOrder('rows', oneRow) });

/** By default every fourth layer has full attention and the others have linear attention. */
const fullAttentionPeriod = 4;

const recurrentLayers = (config: ModelConfig): readonly boolean[] => {
  const kinds = layerKindsOf(config, ['linear_attention', 'full_attention']);
  if (kinds) return kinds.map((kind) => kind === 'linear_attention');
  const interval = config.optionalCount('full_attention_interval') ?? fullAttentionPeriod;
  return Array.from({ length: layerCountOf(config) }, (_, layer) => (layer + 1) % interval !== 0);
};

/** Rotary pairs for each of the four position components (time, height, width, none), which are equal for text. */
const sectionsOf = (declared: unknown): Int32Array => {
  const sections = new Int32Array(4);
  sections.set(Array.isArray(declared) ? declared.slice(0, 4).map(Number) : [11, 11, 10]);
  return sections;
};

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void => {
  config.allowOnly('attn_output_gate', true);
  config.allowOnly('attention_bias', false);
  writeDecoder(config, writer);
  const rope = config.object('rope_scaling', 'rope_parameters');
  const ropeParameters = isRecord(rope) ? rope : {};
  const rotatedFraction = ropeParameters.partial_rotary_factor ?? config.get('partial_rotary_factor') ?? 0.25;
  if (typeof rotatedFraction !== 'number' || !(rotatedFraction > 0 && rotatedFraction <= 1)) {
    config.addProblem(
      `partial_rotary_factor must be above 0 and at most 1, got ${JSON.stringify(rotatedFraction)}`,
    );
  } else writer.set('rope.dimension_count', Math.trunc(headDimOf(config) * rotatedFraction));
  writer.set('rope.dimension_sections', sectionsOf(ropeParameters.mrope_section));
  const heads = linearHeads(config);
  if (heads.valueHeads % heads.keyHeads !== 0) {
    config.addProblem(
      `linear_num_value_heads must be a multiple of linear_num_key_heads, got ${heads.valueHeads} and ${heads.keyHeads}`,
    );
  }
  writer.set('ssm.conv_kernel', config.count('linear_conv_kernel_dim'));
  writer.set('ssm.state_size', heads.keyDim);
  writer.set('ssm.group_count', heads.keyHeads);
  writer.set('ssm.time_step_rank', heads.valueHeads);
  writer.set('ssm.inner_size', heads.valueHeads * heads.valueDim);
  writer.set('attention.recurrent_layers', recurrentLayers(config));
  writer.set(
    'full_attention_interval',
    config.optionalCount('full_attention_interval') ?? fullAttentionPeriod,
  );
};

/**
 * Qwen3.5 and the text model of its multimodal variants: gated linear attention in most layers, else full attention.
 */
export const qwen3_5: ModelFamily = {
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
  prefixes: multimodalPrefixes,
  // The vision tower and the multi-token prediction layers.
  ignoredTensors: /^(model\.)?(visual|vision_tower|mtp)\./,
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
      reorderHeads: valueHeadOrder('rows', valueDim, queriesAndKeys),
    },
    'layers.#.linear_attn.in_proj_z': valueRows('blk.#.attn_gate'),
    'layers.#.linear_attn.in_proj_a': headRows('blk.#.ssm_alpha'),
    'layers.#.linear_attn.in_proj_b': headRows('blk.#.ssm_beta'),
    'layers.#.linear_attn.conv1d': {
      name: 'blk.#.ssm_conv1d',
      isDepthwiseConv: true,
      asFloat: true,
      reorderHeads: valueHeadOrder('rows', valueDim, queriesAndKeys),
    },
    'layers.#.linear_attn.norm': 'blk.#.ssm_norm',
    'layers.#.linear_attn.out_proj': {
      name: 'blk.#.ssm_out',
      reorderHeads: valueHeadOrder('columns', valueDim),
    },
  },
  unsuffixedTensors: {
    'layers.#.linear_attn.A_log': { ...headRows('blk.#.ssm_a'), mapValue: (value) => -Math.exp(value) },
    'layers.#.linear_attn.dt_bias': headRows('blk.#.ssm_dt.bias'),
  },
  writeMetadata,
};
