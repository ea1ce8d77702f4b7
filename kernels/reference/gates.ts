import { activations } from './gated-activation.ts';
import { rmsNorm } from './rms-norm.ts';
import { assertLength, type Values } from './vectors.ts';

/**
 * RMS norm of each row, multiplied by silu(gate).
 * @param x [rows, cols], like gate
 * @param weight [cols]
 */
export function gatedNorm(
  x: Values,
  gate: Values,
  weight: Values,
  shape: { rows: number; cols: number; eps: number },
): Float64Array {
  assertLength('gatedNorm gate', gate, x.length);
  return rmsNorm(x, weight, shape).map((value, i) => value * activations.silu(gate[i]!));
}

/** x * sigmoid(gate); both have the same shape. */
export function sigmoidGate(x: Values, gate: Values): Float64Array {
  assertLength('sigmoidGate gate', gate, x.length);
  return Float64Array.from(x, (value, i) => value / (1 + Math.exp(-gate[i]!)));
}
