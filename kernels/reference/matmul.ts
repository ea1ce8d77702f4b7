import { assertLength, type Values } from './vectors.ts';

export interface MatmulShape {
  /** Rows of x. */
  tokens: number;
  /** Columns of x and of the weight. */
  inputs: number;
  /** Rows of the weight. */
  outputs: number;
}

/**
 * out[t,n] = (sum over k of x[t,k] * weight[n,k] (+ bias[n])) (* scale) (+ residual[t,n])
 * @param x [tokens, inputs]
 * @param weight [outputs, inputs], dequantized
 * @param terms bias [outputs]; residual [tokens, outputs]
 * @returns [tokens, outputs]
 */
export function matmul(
  x: Values,
  weight: Values,
  shape: MatmulShape,
  terms: { bias?: Values | undefined; scale?: number; residual?: Values | undefined } = {},
): Float64Array {
  const { tokens, inputs, outputs } = shape;
  const { bias, scale = 1, residual } = terms;
  assertLength('matmul x', x, tokens * inputs);
  assertLength('matmul weight', weight, outputs * inputs);
  if (bias !== undefined) assertLength('matmul bias', bias, outputs);
  if (residual !== undefined) assertLength('matmul residual', residual, tokens * outputs);
  const out = new Float64Array(tokens * outputs);
  for (let n = 0; n < outputs; n++) {
    for (let t = 0; t < tokens; t++) {
      let sum = 0;
      for (let k = 0; k < inputs; k++) sum += x[t * inputs + k]! * weight[n * inputs + k]!;
      out[t * outputs + n] = (sum + (bias?.[n] ?? 0)) * scale + (residual?.[t * outputs + n] ?? 0);
    }
  }
  return out;
}
