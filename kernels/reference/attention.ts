import { softmax } from './softmax.ts';
import { assertLength, type Values } from './vectors.ts';

export interface AttentionShape {
  heads: number;
  /** A divisor of heads: query head h reads key/value head floor(h / (heads / kvHeads)). */
  kvHeads: number;
  headDim: number;
  /** Usually 1 / sqrt(headDim). */
  scale: number;
  /** Sliding window: number of positions that a query reads, including its own. Default: all. */
  window?: number;
  /** Whether a query also reads later keys. The window, including the own position, then applies in both directions. */
  bidirectional?: boolean;
  /** [heads]: attention sinks, an additional score of each head in the softmax that has no value. */
  sinks?: Values;
}

/**
 * Causal attention unless bidirectional: the query at position p reads the keys 0..p, or the last `window` of them.
 * @param queries [tokens, heads, headDim], RoPE applied
 * @param positions [tokens], each below the number of keys
 * @param keys [cached, kvHeads, headDim], RoPE applied; the index is the position
 * @param values [cached, kvHeads, headDim]
 * @returns [tokens, heads, headDim]
 */
export function attention(
  queries: Values,
  positions: ArrayLike<number>,
  keys: Values,
  values: Values,
  shape: AttentionShape,
): Float64Array {
  const { heads, kvHeads, headDim, scale, window = Number.POSITIVE_INFINITY, bidirectional, sinks } = shape;
  const row = kvHeads * headDim;
  const cached = keys.length / row;
  if (heads % kvHeads !== 0) throw new RangeError(`${heads} heads cannot share ${kvHeads} key/value heads`);
  assertLength('attention queries', queries, positions.length * heads * headDim);
  assertLength('attention values', values, keys.length);
  if (sinks) assertLength('attention sinks', sinks, heads);
  const out = new Float64Array(queries.length);
  for (let t = 0; t < positions.length; t++) {
    const visible = positions[t]! + 1;
    if (visible < 1 || visible > cached) {
      throw new RangeError(`attention: expected positions below ${cached}, got ${visible - 1}`);
    }
    for (let h = 0; h < heads; h++) {
      const q = (t * heads + h) * headDim;
      const kv = Math.floor(h / (heads / kvHeads)) * headDim;
      // Keys outside of the window have weight 0.
      const begin = Math.max(0, visible - window);
      const end = bidirectional ? Math.min(cached, visible - 1 + window) : visible;
      const scores = new Float64Array(end + 1).fill(Number.NEGATIVE_INFINITY);
      for (let s = begin; s < end; s++) {
        let dot = 0;
        for (let d = 0; d < headDim; d++) dot += queries[q + d]! * keys[s * row + kv + d]!;
        scores[s] = dot * scale;
      }
      scores[end] = sinks?.[h] ?? Number.NEGATIVE_INFINITY;
      const weights = softmax(scores);
      for (let s = begin; s < end; s++) {
        for (let d = 0; d < headDim; d++) out[q + d]! += weights[s]! * values[s * row + kv + d]!;
      }
    }
  }
  return out;
}
