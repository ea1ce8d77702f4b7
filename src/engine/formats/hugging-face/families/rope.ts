import { isRecord, type Json } from '../../../../util/json.ts';
import type { Config } from '../config.ts';

/**
 * RoPE parameters of the layers with full attention. Old configurations have `rope_theta` and `rope_scaling`; newer
 * ones have `rope_parameters`, either for all layers or for each layer kind.
 */
export const fullRope = (config: Config): Config => {
  const all = config.object('rope_scaling', 'rope_parameters') ?? {};
  const own = byKind(all) ? (isRecord(all.full_attention) ? all.full_attention : {}) : all;
  return config.within('rope_scaling', { rope_theta: config.get('rope_theta', 'rotary_emb_base'), ...own });
};

/** RoPE parameters of the layers with a sliding window; undefined when they equal those of the other layers. */
export const slidingRope = (config: Config): Config | undefined => {
  const all = config.object('rope_scaling', 'rope_parameters') ?? {};
  const own = byKind(all) && isRecord(all.sliding_attention) ? all.sliding_attention : {};
  const theta = config.get('rope_local_base_freq');
  if (theta === undefined && own.rope_theta === undefined) return undefined;
  return config.within('rope_scaling', { rope_theta: theta, ...own });
};

const byKind = (all: Json): boolean => 'full_attention' in all || 'sliding_attention' in all;

/**
 * Llama 3's RoPE scaling as frequency divisors, [headDim / 2]: long wavelengths are divided by `factor`, short ones by
 * 1, those between are interpolated. Undefined for any other RoPE type.
 */
export const llama3Divisors = (config: Config, headDim: number): Float32Array | undefined => {
  const rope = fullRope(config);
  if (rope.get('rope_type', 'type') !== 'llama3') return undefined;
  const theta = rope.optional('rope_theta') ?? 10_000;
  const factor = rope.optional('factor') ?? 8;
  const low = rope.optional('low_freq_factor') ?? 1;
  const high = rope.optional('high_freq_factor') ?? 4;
  const trained =
    rope.optional('original_max_position_embeddings') ?? config.number('max_position_embeddings');
  const divisors = new Float32Array(headDim / 2);
  for (let pair = 0; pair < divisors.length; pair++) {
    const wave = 2 * Math.PI * theta ** ((2 * pair) / headDim);
    const smooth = (trained / wave - low) / (high - low);
    if (wave < trained / high) divisors[pair] = 1;
    else if (wave > trained / low) divisors[pair] = factor;
    else divisors[pair] = 1 / ((1 - smooth) / factor + smooth);
  }
  return divisors;
};
