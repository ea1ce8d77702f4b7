import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { writeCommon, writeRope } from './common.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { layerKindsOf, layerCountOf } from './layer-kinds.ts';

/** Which layers have attention, by `layer_types` or `full_attn_idxs`; all when neither is set. */
const attentionLayers = (config: ModelConfig): readonly boolean[] => {
  const kinds = layerKindsOf(config, ['conv', 'full_attention']);
  if (kinds) return kinds.map((kind) => kind === 'full_attention');
  const listed = config.get('full_attn_idxs');
  const layers = Array.from({ length: layerCountOf(config) }, (_, layer) => layer);
  if (listed === undefined) return layers.map(() => true);
  const isLayer = (layer: unknown) => layers.includes(layer as number);
  if (!Array.isArray(listed) || !listed.every(isLayer)) {
    config.addProblem(
      `full_attn_idxs must list layers below ${layers.length}, got ${JSON.stringify(listed)}`,
    );
    return [];
  }
  return layers.map((layer) => listed.includes(layer));
};

/**
 * The feed-forward width: two thirds of the configured width, times a factor, rounded up to a multiple; the configured
 * width itself when `block_auto_adjust_ff_dim` is false.
 */
const feedForwardLengthOf = (config: ModelConfig): number => {
  const declared = config.count('block_ff_dim', 'intermediate_size');
  if (config.get('block_auto_adjust_ff_dim') === false) return declared;
  const reduced = Math.trunc((2 * declared) / 3);
  const factor = config.optionalNumber('block_ffn_dim_multiplier');
  if (factor === undefined) return reduced;
  const multiple = config.count('block_multiple_of');
  return Math.ceil(Math.trunc(factor * reduced) / multiple) * multiple;
};

const writeMetadata = (config: ModelConfig, writer: MetadataWriter): void => {
  for (const key of ['tie_embedding', 'tie_word_embeddings']) config.allowOnly(key, true);
  config.allowOnly('conv_bias', false);
  writeCommon(config, writer);
  writeRope(config, writer);
  const kvHeads = config.count('num_key_value_heads');
  writer.set(
    'attention.head_count_kv',
    Int32Array.from(attentionLayers(config), (hasAttention) => (hasAttention ? kvHeads : 0)),
  );
  writer.setFloat('attention.layer_norm_rms_epsilon', config.number('norm_eps'));
  writer.set('feed_forward_length', feedForwardLengthOf(config));
  writer.set('shortconv.l_cache', config.count('conv_L_cache'));
  writer.set('vocab_size', config.count('vocab_size'));
};

/** LFM2: a short convolution in most layers, attention in the others. */
export const lfm2: ModelFamily = {
  architecture: 'lfm2',
  defaults: {
    vocab_size: 65_536,
    hidden_size: 2560,
    intermediate_size: 12_288,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    max_position_embeddings: 128_000,
    norm_eps: 1e-5,
    rope_theta: 1_000_000,
    tie_word_embeddings: true,
    conv_L_cache: 3,
    block_multiple_of: 256,
    block_ffn_dim_multiplier: 1,
  },
  prefixes: decoderPrefixes,
  tensors: {
    embed_tokens: 'token_embd',
    embedding_norm: 'token_embd_norm',
    lm_head: 'output',
    'layers.#.operator_norm': 'blk.#.attn_norm',
    'layers.#.self_attn.q_proj': 'blk.#.attn_q',
    'layers.#.self_attn.k_proj': 'blk.#.attn_k',
    'layers.#.self_attn.v_proj': 'blk.#.attn_v',
    'layers.#.self_attn.out_proj': 'blk.#.attn_output',
    'layers.#.self_attn.q_layernorm': 'blk.#.attn_q_norm',
    'layers.#.self_attn.k_layernorm': 'blk.#.attn_k_norm',
    'layers.#.conv.in_proj': 'blk.#.shortconv.in_proj',
    'layers.#.conv.conv': { name: 'blk.#.shortconv.conv', isDepthwiseConv: true, asFloat: true },
    'layers.#.conv.out_proj': 'blk.#.shortconv.out_proj',
    'layers.#.ffn_norm': 'blk.#.ffn_norm',
    'layers.#.feed_forward.w1': 'blk.#.ffn_gate',
    'layers.#.feed_forward.w2': 'blk.#.ffn_down',
    'layers.#.feed_forward.w3': 'blk.#.ffn_up',
  },
  writeMetadata,
};
