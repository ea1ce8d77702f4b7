import type { ModelConfig } from '../config.ts';
import type { MetadataWriter } from '../metadata-writer.ts';
import { fullRope, slidingRope } from './rope.ts';

/** RoPE types without `rope.scaling` metadata. Llama 3's scaling is a vector of divisors instead. */
const unscaledRopeTypes: readonly unknown[] = ['default', 'llama3'];

/** Writes the hyperparameters that nearly every architecture has. */
export const writeCommon = (config: ModelConfig, writer: MetadataWriter): void => {
  writer.set('block_count', config.count('num_hidden_layers', 'n_layer'));
  writer.set('context_length', config.count('max_position_embeddings', 'n_positions'));
  writer.set('embedding_length', config.count('hidden_size', 'n_embd'));
  writer.set('feed_forward_length', config.count('intermediate_size', 'n_inner'));
  writer.set('attention.head_count', config.count('num_attention_heads', 'n_head'));
  writer.set('attention.head_count_kv', config.optionalCount('num_key_value_heads'));
  if (config.get('is_causal') === false) writer.set('attention.causal', false);
  writer.setFloat('attention.layer_norm_rms_epsilon', config.optionalNumber('rms_norm_eps'));
  writer.setFloat(
    'attention.layer_norm_epsilon',
    config.optionalNumber('layer_norm_eps', 'layer_norm_epsilon'),
  );
  const headDim = config.optionalCount('head_dim');
  writer.set('attention.key_length', headDim);
  writer.set('attention.value_length', headDim);
};

/** Writes a Llama-like decoder: SiLU, rotary embeddings, and as many k and v heads as q heads unless configured. */
export const writeDecoder = (config: ModelConfig, writer: MetadataWriter): void => {
  config.allowOnly('hidden_act', 'silu', 'swish');
  writeCommon(config, writer);
  const kvHeads = config.optionalNumber('num_key_value_heads') ?? config.count('num_attention_heads');
  writer.set('attention.head_count_kv', kvHeads);
  writeRope(config, writer);
};

/** Writes the RoPE base, and the scaling types that GGUF stores as numbers (linear and YaRN). */
export const writeRope = (config: ModelConfig, writer: MetadataWriter): void => {
  const rope = fullRope(config);
  writer.setFloat('rope.freq_base', rope.optionalNumber('rope_theta'));
  writer.setFloat('rope.freq_base_swa', slidingRope(config)?.optionalNumber('rope_theta'));
  const type = rope.get('rope_type', 'type');
  if (type === undefined || unscaledRopeTypes.includes(type)) return;
  if (type !== 'linear' && type !== 'yarn') {
    config.addProblem(
      `rope_scaling of type ${JSON.stringify(type)} is not supported (supported: default, linear, yarn, llama3)`,
    );
    return;
  }
  writer.set('rope.scaling.type', type);
  writer.setFloat('rope.scaling.factor', rope.number('factor'));
  if (type === 'yarn') writeYarn(config, rope, writer);
};

const writeYarn = (config: ModelConfig, rope: ModelConfig, writer: MetadataWriter): void => {
  const trainedContext = rope.optionalNumber('original_max_position_embeddings');
  writer.set(
    'rope.scaling.original_context_length',
    trainedContext ?? config.count('max_position_embeddings'),
  );
  const truncate = rope.get('truncate');
  if (typeof truncate === 'boolean') writer.set('rope.scaling.yarn_truncate', truncate);
  writer.setFloat('rope.scaling.yarn_ext_factor', rope.optionalNumber('extrapolation_factor'));
  writer.setFloat('rope.scaling.yarn_attn_factor', rope.optionalNumber('attention_factor', 'attn_factor'));
  writer.setFloat('rope.scaling.yarn_beta_fast', rope.optionalNumber('beta_fast'));
  writer.setFloat('rope.scaling.yarn_beta_slow', rope.optionalNumber('beta_slow'));
  const hasOwnFactor = rope.optionalNumber('attention_factor', 'attn_factor') !== undefined;
  if (!hasOwnFactor && rope.optionalNumber('mscale') && rope.optionalNumber('mscale_all_dim'))
    rope.addProblem('mscale and mscale_all_dim are not supported (supported: attention_factor)');
};

/** Upper limit of a configured head width, before it is compared with the weights. */
export const maxHeadDim = 1 << 16;

/** The width of a head: `head_dim`, or `hidden_size` divided by the number of heads. */
export const headDimOf = (config: ModelConfig): number =>
  config.optionalNumber('head_dim') ?? config.number('hidden_size') / config.number('num_attention_heads');

/** The sliding window in tokens; undefined when the context is not longer than the window. */
export const slidingWindowOf = (config: ModelConfig): number | undefined => {
  const window = config.optionalCount('sliding_window');
  return window === undefined || window >= config.number('max_position_embeddings') ? undefined : window;
};
