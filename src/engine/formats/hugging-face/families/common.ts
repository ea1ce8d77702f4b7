import type { Config } from '../config.ts';
import type { Keys } from '../keys.ts';
import { fullRope, slidingRope } from './rope.ts';

/** RoPE types without `rope.scaling` metadata. Llama 3's scaling is a vector of divisors instead. */
const silentRopes: readonly unknown[] = ['default', 'llama3'];

/** Writes the hyperparameters that nearly every architecture has. */
export const writeCommon = (config: Config, keys: Keys): void => {
  keys.set('block_count', config.count('num_hidden_layers', 'n_layer'));
  keys.set('context_length', config.count('max_position_embeddings', 'n_positions'));
  keys.set('embedding_length', config.count('hidden_size', 'n_embd'));
  keys.set('feed_forward_length', config.count('intermediate_size', 'n_inner'));
  keys.set('attention.head_count', config.count('num_attention_heads', 'n_head'));
  keys.set('attention.head_count_kv', config.optionalCount('num_key_value_heads'));
  if (config.get('is_causal') === false) keys.set('attention.causal', false);
  keys.float('attention.layer_norm_rms_epsilon', config.optional('rms_norm_eps'));
  keys.float('attention.layer_norm_epsilon', config.optional('layer_norm_eps', 'layer_norm_epsilon'));
  const headDim = config.optionalCount('head_dim');
  keys.set('attention.key_length', headDim);
  keys.set('attention.value_length', headDim);
};

/** Writes a Llama-like decoder: SiLU, rotary embeddings, and as many k and v heads as q heads unless configured. */
export const writeDecoder = (config: Config, keys: Keys): void => {
  config.expect('hidden_act', 'silu', 'swish');
  writeCommon(config, keys);
  const kvHeads = config.optional('num_key_value_heads') ?? config.count('num_attention_heads');
  keys.set('attention.head_count_kv', kvHeads);
  writeRope(config, keys);
};

/** Writes the RoPE base, and the scaling types that GGUF stores as numbers (linear and YaRN). */
export const writeRope = (config: Config, keys: Keys): void => {
  const rope = fullRope(config);
  keys.float('rope.freq_base', rope.optional('rope_theta'));
  keys.float('rope.freq_base_swa', slidingRope(config)?.optional('rope_theta'));
  const type = rope.get('rope_type', 'type');
  if (type === undefined || silentRopes.includes(type)) return;
  if (type !== 'linear' && type !== 'yarn') {
    config.refuse(
      `rope_scaling of type ${JSON.stringify(type)} is not supported (supported: default, linear, yarn, llama3)`,
    );
    return;
  }
  keys.set('rope.scaling.type', type);
  keys.float('rope.scaling.factor', rope.number('factor'));
  if (type === 'yarn') writeYarn(config, rope, keys);
};

const writeYarn = (config: Config, rope: Config, keys: Keys): void => {
  const trained = rope.optional('original_max_position_embeddings');
  keys.set('rope.scaling.original_context_length', trained ?? config.count('max_position_embeddings'));
  const truncate = rope.get('truncate');
  if (typeof truncate === 'boolean') keys.set('rope.scaling.yarn_truncate', truncate);
  keys.float('rope.scaling.yarn_ext_factor', rope.optional('extrapolation_factor'));
  keys.float('rope.scaling.yarn_attn_factor', rope.optional('attention_factor', 'attn_factor'));
  keys.float('rope.scaling.yarn_beta_fast', rope.optional('beta_fast'));
  keys.float('rope.scaling.yarn_beta_slow', rope.optional('beta_slow'));
  const own = rope.optional('attention_factor', 'attn_factor') !== undefined;
  if (!own && rope.optional('mscale') && rope.optional('mscale_all_dim'))
    rope.refuse('mscale and mscale_all_dim are not supported (supported: attention_factor)');
};

/** Upper limit of a configured head width, before it is compared with the weights. */
export const mostHeadDim = 1 << 16;

/** The width of a head: `head_dim`, or `hidden_size` divided by the number of heads. */
export const headDimOf = (config: Config): number =>
  config.optional('head_dim') ?? config.number('hidden_size') / config.number('num_attention_heads');

/** The sliding window in tokens; undefined when the context is not longer than the window. */
export const windowOf = (config: Config): number | undefined => {
  const window = config.optionalCount('sliding_window');
  return window === undefined || window >= config.number('max_position_embeddings') ? undefined : window;
};
