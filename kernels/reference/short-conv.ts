import { assertLength, type Values } from './vectors.ts';

interface ConvShape {
  readonly tokens: number;
  readonly channels: number;
  readonly kernel: number;
}

/**
 * out[t,c] = bias[c] + sum over j < kernel of weight[c,kernel-1-j] * u[t-j,c]. Inputs before the first token come from
 * `past`; default: zeros.
 * @param u [tokens, channels]
 * @param weight [channels, kernel]
 * @param past [kernel - 1, channels], oldest first
 * @returns [tokens, channels], and the last kernel - 1 inputs, oldest first
 */
export function shortConv(
  u: Values,
  weight: Values,
  { tokens, channels, kernel }: ConvShape,
  { bias, past }: { bias?: Values | undefined; past?: Values | undefined } = {},
): { out: Float64Array; past: Float64Array } {
  assertLength('shortConv u', u, tokens * channels);
  assertLength('shortConv weight', weight, channels * kernel);
  const pastLength = kernel - 1;
  if (past) assertLength('shortConv past', past, pastLength * channels);
  const inputs = new Float64Array((pastLength + tokens) * channels);
  if (past) inputs.set(past);
  inputs.set(u, pastLength * channels);
  const out = new Float64Array(tokens * channels);
  for (let t = 0; t < tokens; t++) {
    for (let c = 0; c < channels; c++) {
      let sum = bias?.[c] ?? 0;
      for (let j = 0; j < kernel; j++) sum += weight[c * kernel + j]! * inputs[(t + j) * channels + c]!;
      out[t * channels + c] = sum;
    }
  }
  return { out, past: inputs.slice(tokens * channels) };
}
