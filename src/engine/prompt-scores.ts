/** Log probabilities of a prompt's tokens: each is a sample of the row before it, for which nothing is drawn. */
import { sampleFlags } from '../../kernels/sample.ts';
import type { Sequence } from './sequence.ts';
import { noScores, type Share } from './share.ts';
import type { StepInput } from './step.ts';

/**
 * Tokens that a sequence may compute in a step.
 * @param rows of logits that are left in it
 */
export function scorableTokens(sequence: Sequence, rows: number): number {
  const { scoring, scheduled, request, isScoring } = sequence;
  // Of those scored before it gave its place back, only keys and values are wanted.
  const fit = Math.max(0, scoring - 1 - scheduled) + Math.max(0, rows);
  // The last token of the prompt has no next one, nor do those of an answer need it.
  const isRest = fit >= request.prompt.length - 1 - scheduled;
  return !isScoring || isRest ? Number.POSITIVE_INFINITY : fit;
}

/**
 * Asks for what is still to be scored behind the next `count` tokens of a prompt.
 * @param lastRow of the last one of them
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
