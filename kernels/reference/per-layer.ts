import { activations } from './gated-activation.ts';
import { rmsNorm } from './rms-norm.ts';
import { assertLength, type Values } from './vectors.ts';

/**
 * out[t, l] = (RMS norm of x[t, l] + rows[t, l] * rowScale) * scale
 * @param x and rows [tokens, layers, columns]
 * @param weight [columns]
 */
export function perLayerJoin(
  x: Values,
  rows: Values,
  weight: Values,
  traits: { eps: number; rowScale: number; scale: number },
): Float64Array {
  const { eps, rowScale, scale } = traits;
  assertLength('perLayerJoin rows', rows, x.length);
  const normed = rmsNorm(x, weight, { rows: x.length / weight.length, cols: weight.length, eps });
  return normed.map((value, i) => (value + rows[i]! * rowScale) * scale);
}

/**
 * out[t, c] = gelu_tanh(gate[t, c]) * inputs[t, layer, c]
 * @param gate [tokens, columns]
 * @param inputs [tokens, layers, columns]
 */
export function perLayerGate(
  gate: Values,
  inputs: Values,
  { columns, layers, layer }: { columns: number; layers: number; layer: number },
): Float64Array {
  assertLength('perLayerGate inputs', inputs, gate.length * layers);
  return Float64Array.from(gate, (value, i) => {
    const token = Math.floor(i / columns);
    return activations.gelu_tanh(value) * inputs[(token * layers + layer) * columns + (i % columns)]!;
  });
}

/** cap * tanh(x / cap) */
export const softcap = (values: Values, cap: number): Float64Array =>
  Float64Array.from(values, (value) => cap * Math.tanh(value / cap));
