import { assertLength, type Values } from './vectors.ts';

export interface RouteShape {
  readonly tokens: number;
  readonly experts: number;
  /** Experts of each token. */
  readonly used: number;
}

/**
 * Selects the experts with the largest logits for each token, in descending order; ties by the lowest index, NaN last.
 * Their shares are a softmax over all experts or over the selected ones, times `scale`; NaN if any logit is NaN.
 * @param logits [tokens, experts]
 * @returns [tokens, used] each
 */
export function route(
  logits: Values,
  { tokens, experts, used }: RouteShape,
  { ofAll = false, scale = 1 } = {},
): { selected: Uint32Array; shares: Float64Array } {
  assertLength('route logits', logits, tokens * experts);
  const selected = new Uint32Array(tokens * used);
  const shares = new Float64Array(tokens * used);
  const least = Number.NEGATIVE_INFINITY;
  for (let t = 0; t < tokens; t++) {
    const row = Array.from({ length: experts }, (_, e) => logits[t * experts + e]!);
    const sortKeys = row.map((value) => (Number.isNaN(value) ? least : value));
    const isNumber = (e: number) => (Number.isNaN(row[e]!) ? 0 : 1);
    const order = [...row.keys()].sort((a, b) => {
      if (sortKeys[a] !== sortKeys[b]) return sortKeys[a]! > sortKeys[b]! ? -1 : 1;
      return isNumber(b) - isNumber(a) || a - b;
    });
    const maxLogit = row[order[0]!]!;
    const softmaxExperts = ofAll ? order : order.slice(0, used);
    const mass = softmaxExperts.reduce((total, e) => total + Math.exp(row[e]! - maxLogit), 0);
    const sum = row.some(Number.isNaN) ? Number.NaN : mass;
    for (let j = 0; j < used; j++) {
      selected[t * used + j] = order[j]!;
      shares[t * used + j] = (Math.exp(row[order[j]!]! - maxLogit) / sum) * scale;
    }
  }
  return { selected, shares };
}

/** Gate activation: silu, or OpenAI's clamped and shifted variant. */
export type ExpertActivation = 'silu' | 'swiglu_oai';

export function expertActivation(gate: number, up: number, activation: ExpertActivation): number {
  const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
  if (activation === 'silu') return gate * sigmoid(gate) * up;
  const clampedGate = Math.min(gate, 7);
  return clampedGate * sigmoid(1.702 * clampedGate) * (Math.max(-7, Math.min(7, up)) + 1);
}

/**
 * out[pair, n] = sum over k of weight[expert of pair, n, k] * x[row of pair, k] (+ bias[expert of pair, n])
 * @param x [tokens, inputs], or [pairs, inputs] with `paired`
 * @param weight [experts, outputs, inputs], dequantized; bias [experts, outputs]
 * @param selected experts of the pairs, `used` for each token
 * @returns [pairs, outputs]
 */
export function expertMatmul(
  x: Values,
  weight: Values,
  selected: ArrayLike<number>,
  shape: { inputs: number; outputs: number; used: number; paired?: boolean; bias?: Values | undefined },
): Float64Array {
  const { inputs, outputs, used, paired = false, bias } = shape;
  const out = new Float64Array(selected.length * outputs);
  for (let pair = 0; pair < selected.length; pair++) {
    const row = (paired ? pair : Math.floor(pair / used)) * inputs;
    for (let n = 0; n < outputs; n++) {
      const at = selected[pair]! * outputs + n;
      let sum = bias?.[at] ?? 0;
      for (let k = 0; k < inputs; k++) sum += x[row + k]! * weight[at * inputs + k]!;
      out[pair * outputs + n] = sum;
    }
  }
  return out;
}

/**
 * hidden[t] + the weighted sum of the outputs of its experts.
 * @param x [pairs, width]
 * @param shares [pairs]
 */
export function expertSum(hidden: Values, x: Values, shares: Values, used: number): Float64Array {
  const width = (hidden.length * used) / shares.length;
  return Float64Array.from({ length: hidden.length }, (_, i) => {
    const first = Math.floor(i / width) * used;
    let sum = hidden[i]!;
    for (let pair = first; pair < first + used; pair++) sum += shares[pair]! * x[pair * width + (i % width)]!;
    return sum;
  });
}
