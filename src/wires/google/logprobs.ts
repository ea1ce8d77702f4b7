import { isRecord, type Json } from '../../util/json.ts';
import type { TokenLogprob } from '../core/answer.ts';

/** Reads `logprobsResult` of a candidate: the chosen tokens and the most likely ones at each position. */
export function readLogprobs(result: unknown): TokenLogprob[] {
  if (!isRecord(result)) return [];
  const topCandidates = toRecords(result['topCandidates']);
  return toRecords(result['chosenCandidates']).map((chosen, position) => ({
    ...token(chosen),
    top_logprobs: toRecords(topCandidates[position]?.['candidates']).map(token),
  }));
}

const toRecords = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isRecord) : []);

function token({ token: text, logProbability }: Json): Omit<TokenLogprob, 'top_logprobs'> {
  const tokenText = typeof text === 'string' ? text : '';
  // Used where Google sends no number, for a negligible probability.
  const logprob = typeof logProbability === 'number' ? logProbability : -9999;
  return { token: tokenText, logprob, bytes: [...new TextEncoder().encode(tokenText)] };
}
