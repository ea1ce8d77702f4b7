import { isRecord, type Json } from '../../util/json.ts';
import type { TokenLogprob } from '../core/answer.ts';

/** Reads `logprobsResult` of a candidate: the chosen tokens and the most likely ones at each position. */
export function logprobsOf(result: unknown): TokenLogprob[] {
  if (!isRecord(result)) return [];
  const likeliest = listOf(result['topCandidates']);
  return listOf(result['chosenCandidates']).map((chosen, place) => ({
    ...token(chosen),
    top_logprobs: listOf(likeliest[place]?.['candidates']).map(token),
  }));
}

const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isRecord) : []);

function token({ token: text, logProbability }: Json): Omit<TokenLogprob, 'top_logprobs'> {
  const said = typeof text === 'string' ? text : '';
  // Used where Google sends no number, for a negligible probability.
  const logprob = typeof logProbability === 'number' ? logProbability : -9999;
  return { token: said, logprob, bytes: [...new TextEncoder().encode(said)] };
}
