/** How many drafts the sequences of a step may get. */
import type { Candidate, DraftPolicy } from './draft-policy.ts';
import { type Capacity, splitTokensOf } from './memory.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { PromptPace } from './prompt-pace.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding } from './share.ts';
import { stepSamples } from './step.ts';

const noPlan = { each: 0, rows: 0 };

/**
 * Drafts that a sequence can take: none without a guess, none beyond the end of its answer, and none where decoding
 * splits the context: attention of several rows does not, and rounds differently.
 */
export function draftRoom(
  { lookup, drawn, answered, request, scheduled }: Sequence,
  capacity: Capacity,
): number {
  if (!lookup?.guesses || drawn - answered > 1) return 0;
  const unsplit = splitTokensOf(capacity) - 1 - scheduled;
  return Math.max(0, Math.min(maxDrafts, request.maxTokens - drawn - 1, unsplit));
}

/** Drafts a sequence for the step that is being formed, and rows for all drafts together. */
export function planDrafts(
  running: readonly Sequence[],
  { capacity, drafting, pace }: { capacity: Capacity; drafting: DraftPolicy; pace: PromptPace },
): { each: number; rows: number } {
  if (!running.some((one) => isDecoding(one) && draftRoom(one, capacity) > 0)) return noPlan;
  // Both want rows of logits, and who scores a prompt cannot do without.
  if (running.some(({ isScoring }) => isScoring)) return noPlan;
  const candidates: Candidate[] = [];
  let promptTokens = 0;
  for (const sequence of running) {
    const { phase, drawn, answered, lookup, tokens, scheduled } = sequence;
    if (isDecoding(sequence)) {
      const room = draftRoom(sequence, capacity);
      candidates.push({ room, ahead: drawn - answered, acceptance: lookup?.acceptance ?? 0 });
    } else if (phase === 'prefill') {
      promptTokens += tokens.length - scheduled;
    }
  }
  const { slots, stepTokens } = capacity;
  // Whose prompt ends in this step takes a sample too.
  const rows = Math.min(stepSamples(slots) - running.length, stepTokens - candidates.length);
  const promptMs = Math.min(promptTokens, pace.chunk(true)) * pace.tokenMs;
  return { each: drafting.choose(candidates, rows, promptMs), rows };
}
