import { logSumExp } from './softmax.ts';
import type { Values } from './vectors.ts';

/**
 * Log probabilities (natural logarithm) of a token and of the top tokens.
 * @param logits [vocab]
 * @param token the sampled token
 * @param topCount number of top tokens, in descending order; ties by the lowest token id
 */
export function logprobs(
  logits: Values,
  token: number,
  topCount: number,
): { logprob: number; top: { id: number; logprob: number }[] } {
  const sum = logSumExp(logits);
  const order = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b);
  return {
    logprob: logits[token]! - sum,
    top: order.slice(0, topCount).map((id) => ({ id, logprob: logits[id]! - sum })),
  };
}
