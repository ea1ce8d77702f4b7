/**
 * Definition of the sampler, in this order: logit bias, repetition penalty, presence and frequency penalty; at
 * temperature 0, the greedy token; temperature, top_k, top_p over the remaining tokens (renormalized), min_p; then one
 * token by the Gumbel-max trick. Equal logits are ordered by token id, lowest first.
 */
import { argmax, softmax } from './softmax.ts';
import type { Values } from './vectors.ts';

/** Sampling parameters of a request; see `Sampling` in the engine for their ranges. */
export interface SamplingRule {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  repetitionPenalty: number;
  presencePenalty: number;
  frequencyPenalty: number;
  logitBias: ReadonlyMap<number, number>;
}

/** Tokens of the sequence so far. */
export interface SamplingHistory {
  prompt: readonly number[];
  answer: readonly number[];
}

/**
 * Applies bias and penalties.
 * @param logits [vocab]
 * @returns [vocab]
 */
export function penalizedLogits(
  logits: Values,
  sampling: SamplingRule,
  history: SamplingHistory,
): Float64Array {
  const out = Float64Array.from(logits);
  for (const [token, bias] of sampling.logitBias) if (token in out) out[token]! += bias;
  for (const token of new Set([...history.prompt, ...history.answer])) {
    const logit = out[token]!;
    out[token] = logit > 0 ? logit / sampling.repetitionPenalty : logit * sampling.repetitionPenalty;
  }
  const counts = new Map<number, number>();
  for (const token of history.answer) counts.set(token, (counts.get(token) ?? 0) + 1);
  for (const [token, count] of counts) {
    out[token]! -= sampling.presencePenalty + sampling.frequencyPenalty * count;
  }
  return out;
}

/**
 * logit / temperature of the tokens that remain after filtering, -Infinity for the others. At temperature 0, only the
 * greedy token remains, with 0.
 * @param logits [vocab]
 * @returns [vocab]
 */
export function filteredLogits(
  logits: Values,
  sampling: SamplingRule,
  history: SamplingHistory,
): Float64Array {
  const adjusted = penalizedLogits(logits, sampling, history);
  const out = new Float64Array(logits.length).fill(-Infinity);
  if (sampling.temperature === 0) {
    out[argmax(adjusted)] = 0;
    return out;
  }
  const scaled = adjusted.map((logit) => logit / sampling.temperature);
  const order = Array.from(scaled.keys()).sort((a, b) => scaled[b]! - scaled[a]! || a - b);
  let kept = sampling.topK > 0 ? order.slice(0, sampling.topK) : order;
  if (sampling.topP < 1) kept = nucleus(kept, scaled, sampling.topP);
  // probability >= minP * largest probability, expressed in logits.
  const minLogit = sampling.minP > 0 ? scaled[kept[0]!]! + Math.log(sampling.minP) : -Infinity;
  for (const token of kept) if (scaled[token]! >= minLogit) out[token] = scaled[token]!;
  return out;
}

/** Shortest prefix of `tokens` (most likely first) whose probability mass reaches p; at least one token. */
function nucleus(tokens: number[], scaled: Float64Array, p: number): number[] {
  const probabilities = softmax(Float64Array.from(tokens, (token) => scaled[token]!));
  let mass = 0;
  for (let count = 1; count <= tokens.length; count++) {
    mass += probabilities[count - 1]!;
    if (mass >= p) return tokens.slice(0, count);
  }
  return tokens;
}

/**
 * Probability of every token after filtering.
 * @param logits [vocab]
 * @returns [vocab], sums to 1
 */
export function filteredDistribution(
  logits: Values,
  sampling: SamplingRule,
  history: SamplingHistory,
): Float64Array {
  return softmax(filteredLogits(logits, sampling, history));
}

/** Bijective 32-bit hash. */
function mix(bits: number): number {
  let v = bits;
  v ^= v >>> 16;
  v = Math.imul(v, 0x7feb352d);
  v ^= v >>> 15;
  v = Math.imul(v, 0x846ca68b);
  v ^= v >>> 16;
  return v >>> 0;
}

/** 32 random bits for a token at a position. All arithmetic is wrapping u32. */
export function noiseBits(seed: number, position: number, token: number): number {
  return mix(mix(seed ^ Math.imul(position, 0x9e3779b9)) ^ Math.imul(token, 0x85ebca6b));
}

/** Standard Gumbel noise from the upper 23 random bits (f32 represents v and 1 - v exactly); from -2.8 to 16.7. */
export function gumbel(seed: number, position: number, token: number): number {
  const v = ((noiseBits(seed, position, token) >>> 9) + 0.5) * 2 ** -23;
  return -Math.log(-Math.log1p(-v));
}

/**
 * Samples a token: the argmax of filtered logits plus Gumbel noise has exactly the filtered distribution.
 * @param logits [vocab]
 * @param draw 32-bit seed, and position of the sampled token in the sequence (including the prompt)
 */
export function sampleToken(
  logits: Values,
  sampling: SamplingRule,
  history: SamplingHistory,
  draw: { seed: number; position: number },
): number {
  const filtered = filteredLogits(logits, sampling, history);
  return argmax(filtered.map((logit, token) => logit + gumbel(draw.seed, draw.position, token)));
}
