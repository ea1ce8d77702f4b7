import { logSumExp } from './softmax.ts';
import type { Values } from './vectors.ts';

/**
 * Natural log probabilities.
 * @param logits [vocab]
 * @param token whose own is wanted
 * @param likeliest how many others: the likeliest first, of equal ones the lowest token
 */
export function logprobs(
  logits: Values,
  token: number,
  likeliest: number,
): { logprob: number; top: { id: number; logprob: number }[] } {
  const sum = logSumExp(logits);
  const order = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b);
  return {
    logprob: logits[token]! - sum,
    top: order.slice(0, likeliest).map((id) => ({ id, logprob: logits[id]! - sum })),
  };
}
