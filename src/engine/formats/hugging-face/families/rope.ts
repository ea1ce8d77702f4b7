import { isRecord, type Json } from '../../../../util/json.ts';
import type { ModelConfig } from '../config.ts';

/**
 * RoPE parameters of the layers with full attention. Old configurations have `rope_theta` and `rope_scaling`; newer
 * ones have `rope_parameters`, either for all layers or for each layer kind.
 */
export const fullRope = (config: ModelConfig): ModelConfig => {
  const parameters = config.object('rope_scaling', 'rope_parameters') ?? {};
  const ownParameters = isPerLayerKind(parameters)
    ? isRecord(parameters.full_attention)
      ? parameters.full_attention
      : {}
    : parameters;
  return config.section('rope_scaling', {
    rope_theta: config.get('rope_theta', 'rotary_emb_base'),
    ...ownParameters,
  });
};

/** RoPE parameters of the layers with a sliding window; undefined when they equal those of the other layers. */
export const slidingRope = (config: ModelConfig): ModelConfig | undefined => {
  const parameters = config.object('rope_scaling', 'rope_parameters') ?? {};
  const ownParameters =
    isPerLayerKind(parameters) && isRecord(parameters.sliding_attention) ? parameters.sliding_attention : {};
  const theta = config.get('rope_local_base_freq');
  if (theta === undefined && ownParameters.rope_theta === undefined) return undefined;
  return config.section('rope_scaling', { rope_theta: theta, ...ownParameters });
};

const isPerLayerKind = (parameters: Json): boolean =>
  'full_attention' in parameters || 'sliding_attention' in parameters;

/**
 * Llama 3's RoPE scaling as frequency divisors, [headDim / 2]: long wavelengths are divided by `factor`, short ones by
 * 1, those between are interpolated. Undefined for any other RoPE type.
 */
export const llama3Divisors = (config: ModelConfig, headDim: number): Float32Array | undefined => {
  const rope = fullRope(config);
  if (rope.get('rope_type', 'type') !== 'llama3') return undefined;
  const theta = rope.optionalNumber('rope_theta') ?? 10_000;
  const factor = rope.optionalNumber('factor') ?? 8;
  const lowFrequencyFactor = rope.optionalNumber('low_freq_factor') ?? 1;
  const highFrequencyFactor = rope.optionalNumber('high_freq_factor') ?? 4;
  const trainedContext =
    rope.optionalNumber('original_max_position_embeddings') ?? config.number('max_position_embeddings');
  const divisors = new Float32Array(headDim / 2);
  for (let pair = 0; pair < divisors.length; pair++) {
    const wavelength = 2 * Math.PI * theta ** ((2 * pair) / headDim);
    const smooth =
      (trainedContext / wavelength - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
    if (wavelength < trainedContext / highFrequencyFactor) divisors[pair] = 1;
    else if (wavelength > trainedContext / lowFrequencyFactor) divisors[pair] = factor;
    else divisors[pair] = 1 / ((1 - smooth) / factor + smooth);
  }
  return divisors;
};
