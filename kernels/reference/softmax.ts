import type { Values } from './vectors.ts';

/** Lowest index of the largest value. */
export function argmax(values: Values): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}

/** log(sum(exp(values))) without overflow. */
export function logSumExp(values: Values): number {
  const max = values[argmax(values)] ?? -Infinity;
  if (max === -Infinity) return -Infinity;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - max);
  return max + Math.log(sum);
}

/** exp(v) / sum(exp(v)); -Infinity has probability 0. */
export function softmax(values: Values): Float64Array {
  const max = values[argmax(values)] ?? 0;
  const out = Float64Array.from(values, (value) => Math.exp(value - max));
  let sum = 0;
  for (const weight of out) sum += weight;
  for (let i = 0; i < out.length; i++) out[i] = out[i]! / sum;
  return out;
}
