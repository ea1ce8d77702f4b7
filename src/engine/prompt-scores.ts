/**
 * Scores prompt tokens: the log probability of each is a sample of the row before it, for which no token is sampled.
 */
import { sampleFlags } from '../../kernels/sample.ts';
import type { Sequence } from './sequence.ts';
import { noScores, type Share } from './share.ts';
import type { StepInput } from './step.ts';

/**
 * Number of tokens that a sequence may compute in a step.
 * @param rows rows of logits left in the step
 */
export function scorableTokens(sequence: Sequence, rows: number): number {
  const { scoring, scheduled, request, isScoring } = sequence;
  // Prompt tokens scored before a preemption are recomputed only for their keys and values.
  const fit = Math.max(0, scoring - 1 - scheduled) + Math.max(0, rows);
  // The last prompt token has no next token to score, and output tokens are not scored.
  const isRest = fit >= request.prompt.length - 1 - scheduled;
  return !isScoring || isRest ? Number.POSITIVE_INFINITY : fit;
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
): Share['scores'] {
  if (!sequence.isScoring) return noScores;
  const { scheduled, scoring, request, wants } = sequence;
  const end = Math.min(scheduled + count, request.prompt.length - 1);
  const first = step.dims.samples;
  for (let at = Math.max(scheduled, scoring - 1); at < end; at++) {
    const row = lastRow - (scheduled + count - 1 - at);
    step.score(row, request.prompt[at + 1] as number, wants & ~sampleFlags.mask);
  }
  sequence.scoring = Math.max(scoring, end + 1);
  return { first, count: step.dims.samples - first };
}
