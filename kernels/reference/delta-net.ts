import { assertLength, type Values } from './vectors.ts';

export interface DeltaShape {
  readonly tokens: number;
  readonly keyHeads: number;
  /** A multiple of keyHeads: head h uses q and k of key head h % keyHeads, as in GGUF files. */
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
}

interface DeltaInputs {
  /** [tokens, keyHeads, keyDim] */
  readonly q: Values;
  readonly k: Values;
  /** [tokens, valueHeads, valueDim] */
  readonly v: Values;
  /** [tokens, valueHeads] */
  readonly beta: Values;
  readonly alpha: Values;
  /** [valueHeads]: `dt` is added to alpha; `a` is the decay rate, at most 0. */
  readonly dt: Values;
  readonly a: Values;
}

/**
 * Gated delta rule, token by token. For each value head, with q and k scaled to unit length and q divided by
 * sqrt(keyDim): S *= exp(a * ln(1 + exp(alpha + dt))); S += k (sigmoid(beta) * (v - S^T k))^T; out = S^T q.
 * @param state [valueHeads, keyDim, valueDim] before the first token. Default: zeros
 * @returns [tokens, valueHeads, valueDim], and the state after the last token
 */
export function deltaNet(
  { q, k, v, beta, alpha, dt, a }: DeltaInputs,
  { tokens, keyHeads, valueHeads, keyDim, valueDim }: DeltaShape,
  state?: Values,
): { out: Float64Array; state: Float64Array } {
  assertLength('deltaNet q', q, tokens * keyHeads * keyDim);
  assertLength('deltaNet k', k, tokens * keyHeads * keyDim);
  assertLength('deltaNet v', v, tokens * valueHeads * valueDim);
  assertLength('deltaNet beta', beta, tokens * valueHeads);
  assertLength('deltaNet alpha', alpha, tokens * valueHeads);
  assertLength('deltaNet dt', dt, valueHeads);
  assertLength('deltaNet a', a, valueHeads);
  const states = new Float64Array(valueHeads * keyDim * valueDim);
  if (state) states.set(state);
  const out = new Float64Array(tokens * valueHeads * valueDim);
  for (let t = 0; t < tokens; t++) {
    for (let h = 0; h < valueHeads; h++) {
      const s = states.subarray(h * keyDim * valueDim, (h + 1) * keyDim * valueDim);
      const keyAt = (t * keyHeads + (h % keyHeads)) * keyDim;
      const key = unitLength(k.subarray(keyAt, keyAt + keyDim));
      const query = unitLength(q.subarray(keyAt, keyAt + keyDim));
      const at = t * valueHeads + h;
      const decay = Math.exp(a[h]! * Math.log1p(Math.exp(alpha[at]! + dt[h]!)));
      const rate = 1 / (1 + Math.exp(-beta[at]!));
      for (let i = 0; i < s.length; i++) s[i]! *= decay;
      for (let j = 0; j < valueDim; j++) {
        let storedValue = 0;
        for (let i = 0; i < keyDim; i++) storedValue += s[i * valueDim + j]! * key[i]!;
        const change = rate * (v[at * valueDim + j]! - storedValue);
        let read = 0;
        for (let i = 0; i < keyDim; i++) {
          s[i * valueDim + j]! += key[i]! * change;
          read += s[i * valueDim + j]! * query[i]!;
        }
        out[at * valueDim + j] = read / Math.sqrt(keyDim);
      }
    }
  }
  return { out, state: states };
}

const unitLength = (values: Values): Float64Array => {
  let squares = 0;
  for (const value of values) squares += value ** 2;
  return Float64Array.from(values, (value) => value / Math.sqrt(squares + 1e-6));
};
