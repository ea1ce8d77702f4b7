import type { ModelConfig } from '../config.ts';
import type { ModelFamily } from '../family.ts';
import { writeCommon } from './common.ts';
import { decoderPrefixes } from './decoder-tensors.ts';
import { fullRope } from './rope.ts';

/** Names of LongRoPE, including older ones. */
const longRopeTypes: readonly unknown[] = ['longrope', 'su', 'yarn'];

const trainedContext = (config: ModelConfig): number => config.count('original_max_position_embeddings');

const rotaryDimensionOf = (config: ModelConfig): number => {
  const rotatedFraction =
    fullRope(config).optionalNumber('partial_rotary_factor') ?? config.number('partial_rotary_factor');
  return Math.floor(
    Math.floor(rotatedFraction * config.number('hidden_size')) / config.number('num_attention_heads'),
  );
};

/**
 * Frequency divisors of LongRoPE, for texts longer and shorter than the original training context; undefined without
 * LongRoPE.
 */
const longFactors = (config: ModelConfig): { long: Float32Array; short: Float32Array } | undefined => {
  const rope = fullRope(config);
  const type = rope.get('rope_type', 'type');
  if (type === undefined || type === 'default') return undefined;
  if (!longRopeTypes.includes(type)) {
    config.addProblem(`rope_scaling of type ${JSON.stringify(type)} is not supported (supported: longrope)`);
    return undefined;
  }
  const count = rotaryDimensionOf(config) / 2;
  const factors = (key: string): Float32Array => {
    const values = rope.get(key);
    if (
      Array.isArray(values) &&
      values.length === count &&
      values.every((value) => typeof value === 'number')
    ) {
      return new Float32Array(values);
    }
    const actual = Array.isArray(values) ? `${values.length}` : (JSON.stringify(values) ?? 'nothing');
    config.addProblem(`rope_scaling.${key} must be an array of ${count} numbers, got ${actual}`);
    return new Float32Array(0);
  };
  return { long: factors('long_factor'), short: factors('short_factor') };
};

/** The attention factor of LongRoPE, which grows with the extension of the context. */
const attentionFactor = (config: ModelConfig): number => {
  const contextScale = config.count('max_position_embeddings') / trainedContext(config);
  return contextScale > 1 ? Math.sqrt(1 + Math.log(contextScale) / Math.log(trainedContext(config))) : 1;
};

/** Phi-3, Phi-3.5 and Phi-4-mini: q, k and v in one matrix, gate and up in another. */
export const phi3: ModelFamily = {
  architecture: 'phi3',
  defaults: {
    max_position_embeddings: 4096,
    original_max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    partial_rotary_factor: 1,
    tie_word_embeddings: false,
  },
  prefixes: decoderPrefixes,
  tensors: {
    embed_tokens: 'token_embd',
    norm: 'output_norm',
    lm_head: 'output',
    'layers.#.input_layernorm': 'blk.#.attn_norm',
    'layers.#.self_attn.qkv_proj': 'blk.#.attn_qkv',
    'layers.#.self_attn.o_proj': 'blk.#.attn_output',
    'layers.#.post_attention_layernorm': 'blk.#.ffn_norm',
    'layers.#.mlp.gate_up_proj': 'blk.#.ffn_up',
    'layers.#.mlp.down_proj': 'blk.#.ffn_down',
  },
  writeMetadata(config, writer) {
    config.allowOnly('hidden_act', 'silu', 'swish');
    writeCommon(config, writer);
    const kvHeads = config.optionalNumber('num_key_value_heads') ?? config.count('num_attention_heads');
    writer.set('attention.head_count_kv', kvHeads);
    writer.setFloat('rope.freq_base', fullRope(config).number('rope_theta'));
    writer.set('rope.dimension_count', rotaryDimensionOf(config));
    writer.set('rope.scaling.original_context_length', trainedContext(config));
    // 0 means no window, which distinguishes Phi-4 from models with one.
    writer.set('attention.sliding_window', config.optionalNumber('sliding_window') ?? 0);
    if (longFactors(config)) writer.setFloat('rope.scaling.attn_factor', attentionFactor(config));
  },
  computeVectors(config) {
    const factors = longFactors(config);
    if (!factors) return new Map();
    return new Map([
      ['rope_factors_long.weight', factors.long],
      ['rope_factors_short.weight', factors.short],
    ]);
  },
};
