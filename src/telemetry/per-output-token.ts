import type { TraceSpan } from '../tracing/index.ts';

/** Time per output token after the first, in ms; undefined when unknown, as for several answers generated in parallel. */
export function perOutputTokenMs({
  attributes: facts,
  totalMs,
}: TraceSpan<'completion'> | TraceSpan<'gateway'>): number | undefined {
  const { firstTokenMs, completionTokens = 0 } = facts;
  const answerCount = 'answers' in facts ? (facts.answers ?? 1) : 1;
  if (totalMs === undefined || firstTokenMs === undefined || completionTokens < 2 || answerCount > 1)
    return undefined;
  return Math.max(0, totalMs - firstTokenMs) / (completionTokens - 1);
}
