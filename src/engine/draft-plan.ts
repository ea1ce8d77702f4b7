/** Decides how many drafts each sequence of a step gets. */
import type { Candidate, DraftPolicy } from './draft-policy.ts';
import type { Drafter } from './drafter.ts';
import { type Capacity, splitTokensOf } from './memory.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { PromptPace } from './prompt-pace.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding } from './share.ts';
import { stepSamples } from './step.ts';

const noPlan = { each: 0, rows: 0 };

/** The drafter of a sequence that has a draft now. The draft model takes precedence over prompt lookup. */
export const drafterOf = ({ model, lookup }: Sequence): Drafter | undefined =>
  [model, lookup].find((drafter) => drafter !== undefined && drafter.most > 0);

/**
 * Most drafts that can be verified for a sequence: none past `maxTokens`, and none where decoding splits the context,
 * because attention over several rows is not split and rounds differently.
 */
export function verifiable({ drawn, answered, request, scheduled }: Sequence, capacity: Capacity): number {
  if (drawn - answered > 1) return 0;
  const unsplit = splitTokensOf(capacity) - 1 - scheduled;
  return Math.max(0, Math.min(maxDrafts, request.maxTokens - drawn - 1, unsplit));
}

/** Most drafts for a sequence: what can be verified, limited by what its drafter can propose. */
export function draftRoom(sequence: Sequence, capacity: Capacity): number {
  const guessed = (drafterOf(sequence)?.most ?? 0) - (sequence.drawn - sequence.answered);
  return Math.max(0, Math.min(verifiable(sequence, capacity), guessed));
}

/** Rows of a step available for drafts; 0 while a prompt is scored, because scoring needs the rows of logits. */
export function rowsForDrafts(running: readonly Sequence[], { slots, stepTokens }: Capacity): number {
  if (running.some(({ isScoring }) => isScoring)) return 0;
  const decoding = running.reduce((sum, one) => sum + Number(isDecoding(one)), 0);
  // A prompt that ends in this step takes a sample too.
  return Math.min(stepSamples(slots) - running.length, stepTokens - decoding);
}

/** Expected time in ms for the prompt tokens of the next step. */
export function promptMsOf(running: readonly Sequence[], pace: PromptPace): number {
  let tokens = 0;
  for (const { phase, tokens: text, scheduled } of running) {
    if (phase === 'prefill') tokens += text.length - scheduled;
  }
  return Math.min(tokens, pace.chunk(true)) * pace.tokenMs;
}

/** The drafting state of a decoding sequence. */
export function candidateOf(sequence: Sequence, capacity: Capacity): Candidate {
  const room = draftRoom(sequence, capacity);
  const acceptance = drafterOf(sequence)?.acceptance ?? 0;
  return { room, ahead: sequence.drawn - sequence.answered, acceptance };
}

/**
 * Drafts for each sequence in the step being formed, and the total rows for drafts.
 * @param decidedDrafts drafts for each sequence when a draft round has already decided it; 0 otherwise
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
