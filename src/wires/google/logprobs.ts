import { isRecord, type Json } from '../../util/json.ts';
import type { TokenLogprob } from '../core/answer.ts';

/** `logprobsResult` of a candidate: the tokens chosen, and at each place the likeliest. */
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
  // The least that fits: Google has no number for what cannot be.
  const logprob = typeof logProbability === 'number' ? logProbability : -9999;
  return { token: said, logprob, bytes: [...new TextEncoder().encode(said)] };
}
