/**
 * Scores prompt tokens: the log probability of each is a sample of the row before it, for which no token is sampled.
 */
import { sampleFlags } from '../../../kernels/sample.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { noScores, type BatchEntry } from '../scheduling/batch-entry.ts';
import type { StepInput } from '../execution/step.ts';

/**
 * Number of tokens that a sequence may compute in a step.
 * @param rows rows of logits left in the step
 */
export function scorableTokens(sequence: Sequence, rows: number): number {
  const { scoredTokens, scheduledTokens, request, isScoring } = sequence;
  // Prompt tokens scored before a preemption are recomputed only for their keys and values.
  const fittingTokens = Math.max(0, scoredTokens - 1 - scheduledTokens) + Math.max(0, rows);
  // The last prompt token has no next token to score, and output tokens are not scored.
  const fitsRest = fittingTokens >= request.prompt.length - 1 - scheduledTokens;
  return !isScoring || fitsRest ? Number.POSITIVE_INFINITY : fittingTokens;
}

/**
 * Adds samples that score the prompt tokens after the next `count` tokens.
 * @param lastRow row of the last of these tokens
 */
export function scorePrompt(
  step: StepInput,
  sequence: Sequence,
  lastRow: number,
  count: number,
): BatchEntry['scores'] {
  if (!sequence.isScoring) return noScores;
  const { scheduledTokens, scoredTokens, request, requestFlags } = sequence;
  const end = Math.min(scheduledTokens + count, request.prompt.length - 1);
  const first = step.dims.samples;
  for (let at = Math.max(scheduledTokens, scoredTokens - 1); at < end; at++) {
    const row = lastRow - (scheduledTokens + count - 1 - at);
    step.score(row, request.prompt[at + 1] as number, requestFlags & ~sampleFlags.mask);
  }
  sequence.scheduleScores(end + 1);
  return { first, count: step.dims.samples - first };
}
