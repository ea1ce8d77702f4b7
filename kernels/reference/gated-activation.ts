import { assertLength, type Values } from './vectors.ts';

/** Activation functions by name. */
export const activations = {
  /** x * sigmoid(x) */
  silu: (x: number) => x / (1 + Math.exp(-x)),
  /** GELU, tanh approximation (`gelu` in GGUF models). */
  gelu_tanh: (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
} as const satisfies Record<string, (x: number) => number>;

export type Activation = keyof typeof activations;

/**
 * out[i] = activation(gate[i]) * up[i]
 * @param gate and up [any], the same shape
 */
export function gatedActivation(gate: Values, up: Values, activation: Activation = 'silu'): Float64Array {
  assertLength('gatedActivation up', up, gate.length);
  const act = activations[activation];
  return Float64Array.from(gate, (g, i) => act(g) * up[i]!);
}
