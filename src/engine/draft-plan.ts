/** How many drafts the sequences of a step may get. */
import type { Candidate, DraftPolicy } from './draft-policy.ts';
import type { Drafter } from './drafter.ts';
import { type Capacity, splitTokensOf } from './memory.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { PromptPace } from './prompt-pace.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding } from './share.ts';
import { stepSamples } from './step.ts';

const noPlan = { each: 0, rows: 0 };

/** Who has a guess of what follows; what a model has computed goes before what stands in the text. */
export const drafterOf = ({ model, lookup }: Sequence): Drafter | undefined =>
  [model, lookup].find((drafter) => drafter !== undefined && drafter.most > 0);

/**
 * Drafts that a sequence can take: none beyond the end of its answer, and none where decoding splits the context:
 * attention of several rows does not, and rounds differently.
 */
export function verifiable({ drawn, answered, request, scheduled }: Sequence, capacity: Capacity): number {
  if (drawn - answered > 1) return 0;
  const unsplit = splitTokensOf(capacity) - 1 - scheduled;
  return Math.max(0, Math.min(maxDrafts, request.maxTokens - drawn - 1, unsplit));
}

/** Of those, how many somebody can guess. */
export function draftRoom(sequence: Sequence, capacity: Capacity): number {
  const guessed = (drafterOf(sequence)?.most ?? 0) - (sequence.drawn - sequence.answered);
  return Math.max(0, Math.min(verifiable(sequence, capacity), guessed));
}

/** Rows of drafts that a step has room for; none while a prompt is scored, which cannot do without rows of logits. */
export function rowsForDrafts(running: readonly Sequence[], { slots, stepTokens }: Capacity): number {
  if (running.some(({ isScoring }) => isScoring)) return 0;
  const decoding = running.reduce((sum, one) => sum + Number(isDecoding(one)), 0);
  // Whose prompt ends in this step takes a sample too.
  return Math.min(stepSamples(slots) - running.length, stepTokens - decoding);
}

/** What the prompt tokens of the next step will take. */
export function promptMsOf(running: readonly Sequence[], pace: PromptPace): number {
  let tokens = 0;
  for (const { phase, tokens: text, scheduled } of running) {
    if (phase === 'prefill') tokens += text.length - scheduled;
  }
  return Math.min(tokens, pace.chunk(true)) * pace.tokenMs;
}

/** A decoding sequence as it stands. */
export function candidateOf(sequence: Sequence, capacity: Capacity): Candidate {
  const room = draftRoom(sequence, capacity);
  const acceptance = drafterOf(sequence)?.acceptance ?? 0;
  return { room, ahead: sequence.drawn - sequence.answered, acceptance };
}

/**
 * Drafts a sequence for the step that is being formed, and rows for all drafts together.
 * @param decided drafts a sequence, where that is not to be decided any more
 */
export function planDrafts(
  running: readonly Sequence[],
  { capacity, drafting, pace }: { capacity: Capacity; drafting: DraftPolicy; pace: PromptPace },
  decided = 0,
): { each: number; rows: number } {
  if (!running.some((one) => isDecoding(one) && draftRoom(one, capacity) > 0)) return noPlan;
  const rows = rowsForDrafts(running, capacity);
  if (rows < 1) return noPlan;
  if (decided > 0) return { each: decided, rows };
  const candidates = running.filter(isDecoding).map((one) => candidateOf(one, capacity));
  return { each: drafting.choose(candidates, rows, promptMsOf(running, pace)), rows };
}
