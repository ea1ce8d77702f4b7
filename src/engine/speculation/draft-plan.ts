/** Decides how many drafts each sequence of a step gets. */
import type { DraftCandidate, DraftPolicy } from './draft-policy.ts';
import type { Drafter } from './drafter.ts';
import { type Capacity, splitTokensOf } from '../memory/memory.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { PrefillChunker } from '../scheduling/prefill-chunker.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { isDecoding } from '../scheduling/batch-entry.ts';
import { maxStepSamples } from '../execution/step.ts';

const noPlan = { draftsPerSequence: 0, rows: 0 };

/** The drafter of a sequence that has a draft now. The draft model takes precedence over prompt lookup. */
export const drafterOf = ({ modelDrafter, lookupDrafter }: Sequence): Drafter | undefined =>
  [modelDrafter, lookupDrafter].find((drafter) => drafter !== undefined && drafter.availableTokens > 0);

/**
 * Most drafts that can be verified for a sequence: none past `maxTokens`, and none where decoding splits the context:
 * tiles of several tokens are not split, and there is memory for one split tile of each slot.
 */
export function maxVerifiableDrafts(
  { sampledTokens, outputTokens, request, scheduledTokens }: Sequence,
  capacity: Capacity,
): number {
  if (sampledTokens - outputTokens > 1) return 0;
  const unsplitTokens = splitTokensOf(capacity) - 1 - scheduledTokens;
  return Math.max(0, Math.min(maxDrafts, request.maxTokens - sampledTokens - 1, unsplitTokens));
}

/** Most drafts for a sequence: what can be verified, limited by what its drafter can propose. */
export function maxDraftsFor(sequence: Sequence, capacity: Capacity): number {
  const available =
    (drafterOf(sequence)?.availableTokens ?? 0) - (sequence.sampledTokens - sequence.outputTokens);
  return Math.max(0, Math.min(maxVerifiableDrafts(sequence, capacity), available));
}

/** Rows of a step available for drafts; 0 while a prompt is scored, because scoring needs the rows of logits. */
export function draftRowBudget(running: readonly Sequence[], { slots, stepTokens }: Capacity): number {
  if (running.some(({ isScoring }) => isScoring)) return 0;
  const decoding = running.reduce((sum, one) => sum + Number(isDecoding(one)), 0);
  // A prompt that ends in this step takes a sample too.
  return Math.min(maxStepSamples(slots) - running.length, stepTokens - decoding);
}

/** Expected time in ms for the prompt tokens of the next step. */
export function expectedPromptMs(running: readonly Sequence[], prefillChunker: PrefillChunker): number {
  let tokens = 0;
  for (const { phase, tokens: text, scheduledTokens } of running) {
    if (phase === 'prefill') tokens += text.length - scheduledTokens;
  }
  return Math.min(tokens, prefillChunker.chunkTokens(true)) * prefillChunker.msPerToken;
}

/** The drafting state of a decoding sequence. */
export function candidateOf(sequence: Sequence, capacity: Capacity): DraftCandidate {
  const draftLimit = maxDraftsFor(sequence, capacity);
  const acceptance = drafterOf(sequence)?.acceptance ?? 0;
  return { draftLimit, pendingTokens: sequence.sampledTokens - sequence.outputTokens, acceptance };
}

/**
 * Drafts for each sequence in the step being formed, and the total rows for drafts.
 * @param decidedDrafts drafts for each sequence when a draft round has already decided it; 0 otherwise
 */
export function planDrafts(
  running: readonly Sequence[],
  {
    capacity,
    drafting,
    prefillChunker,
  }: { capacity: Capacity; drafting: DraftPolicy; prefillChunker: PrefillChunker },
  decidedDrafts = 0,
): { draftsPerSequence: number; rows: number } {
  if (!running.some((one) => isDecoding(one) && maxDraftsFor(one, capacity) > 0)) return noPlan;
  const rows = draftRowBudget(running, capacity);
  if (rows < 1) return noPlan;
  if (decidedDrafts > 0) return { draftsPerSequence: decidedDrafts, rows };
  const candidates = running.filter(isDecoding).map((one) => candidateOf(one, capacity));
  return {
    draftsPerSequence: drafting.chooseDrafts(candidates, rows, expectedPromptMs(running, prefillChunker)),
    rows,
  };
}
