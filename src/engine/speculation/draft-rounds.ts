import { type DraftRequest, DraftModel, type DraftRunner, ModelDrafter } from './draft-model.ts';
import {
  candidateOf,
  maxDraftsFor,
  expectedPromptMs,
  draftRowBudget,
  maxVerifiableDrafts,
} from './draft-plan.ts';
import type { DraftCandidate, DraftPolicy } from './draft-policy.ts';
import type { Capacity } from '../memory/memory.ts';
import { PrefillChunker } from '../scheduling/prefill-chunker.ts';
import { DraftRoundPolicy } from './draft-round-policy.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { type InFlightStep, isDecoding } from '../scheduling/batch-entry.ts';

/** Tokens that a sequence is assumed to generate still, when its limit allows more. */
const assumedOutputTokens = 128;

/** The result of a draft round for the step after it. */
interface DoneRound {
  /** Drafts for each sequence; 0 when the round only caught up. */
  readonly draftsPerSequence: number;
  readonly ms: number;
}

interface DueRound {
  readonly draftsPerSequence: number;
  readonly chosen: readonly Sequence[];
}

/**
 * Runs draft rounds of a draft model. A round runs between two steps, when no step is in flight: the draft model
 * computes the tokens it has not seen yet, a chunk at a time, then drafts for all chosen sequences together.
 */
export class DraftRounds {
  readonly #draftModel: DraftModel;
  readonly #policy: DraftRoundPolicy;
  readonly #drafting: DraftPolicy;
  readonly #capacity: Capacity;
  readonly #prefillChunker: PrefillChunker;
  readonly #catchUpChunker = new PrefillChunker();
  readonly #now: () => number;
  /** The round to run next: the number of drafts and the chosen sequences. */
  #due: DueRound | undefined;
  /** Sequences that the previous round did not catch up with. */
  #unfinished: DueRound | undefined;
  #finished: DoneRound | undefined;

  /** @param target the target model, as the scheduler sees it */
  constructor(
    runner: DraftRunner,
    target: {
      capacity: Capacity;
      vocabulary: number;
      drafting: DraftPolicy;
      prefillChunker: PrefillChunker;
      now: () => number;
    },
  ) {
    this.#draftModel = new DraftModel(runner, target.vocabulary);
    this.#policy = new DraftRoundPolicy(target.drafting);
    this.#drafting = target.drafting;
    this.#capacity = target.capacity;
    this.#prefillChunker = target.prefillChunker;
    this.#now = target.now;
  }

  /** Creates the drafter of a sequence that allows drafts. */
  drafterFor({ tokens }: Sequence): ModelDrafter {
    return new ModelDrafter(tokens, this.#policy.acceptance);
  }

  observe(hit: boolean): void {
    this.#policy.observe(hit);
  }

  forgetPrefixes(): void {
    this.#draftModel.forgetPrefixes();
  }

  /** True when a round is decided but has not run; no step is formed before it runs. */
  get isDue(): boolean {
    return this.#due !== undefined;
  }

  /** Decides whether a round runs before the next step; returns true while one is due. */
  planRound(running: readonly Sequence[]): boolean {
    if (this.#finished || this.#drafting.mode === 'off') return false;
    this.#due ??= this.#unfinished;
    this.#unfinished = undefined;
    if (this.#due) return true;
    const rows = draftRowBudget(running, this.#capacity);
    if (rows < 1) return false;
    const withDrafts: DraftCandidate[] = [];
    const withoutDrafts: DraftCandidate[] = [];
    const chosen: Sequence[] = [];
    let [missingTokens, horizonTokens] = [0, 0];
    for (const sequence of running) {
      if (!isDecoding(sequence)) continue;
      const candidate = candidateOf(sequence, this.#capacity);
      withoutDrafts.push(candidate);
      const draftLimit = this.#draftLimit(sequence);
      if (draftLimit === 0) {
        // No step is in flight when the step after a round is formed.
        withDrafts.push({ ...candidate, pendingTokens: 0 });
        continue;
      }
      withDrafts.push({ draftLimit, pendingTokens: 0, acceptance: sequence.modelDrafter?.acceptance ?? 0 });
      chosen.push(sequence);
      missingTokens += this.#draftModel.catchUpTokens(sequence);
      horizonTokens += Math.min(assumedOutputTokens, sequence.request.maxTokens - sequence.sampledTokens);
    }
    const count = chosen.length;
    if (count === 0) return false;
    const promptMs = expectedPromptMs(running, this.#prefillChunker);
    const catchUpMs = missingTokens * this.#catchUpChunker.msPerToken;
    const draftsPerSequence = this.#policy.chooseDrafts({
      withDrafts,
      withoutDrafts,
      count,
      rows,
      promptMs,
      catchUpMs,
      horizonTokens,
    });
    if (draftsPerSequence > 0) this.#due = { draftsPerSequence, chosen };
    return draftsPerSequence > 0;
  }

  /** Runs the round that is due. Sequences may end meanwhile. */
  async run(running: readonly Sequence[]): Promise<void> {
    const { draftsPerSequence, chosen } = this.#due ?? { draftsPerSequence: 0, chosen: [] };
    this.#due = undefined;
    const startedAt = this.#now();
    await this.#catchUp(running, chosen);
    const caughtUpAt = this.#now();
    const { requests, maxPerSequence } = this.#assignDrafts(running, { draftsPerSequence, chosen });
    const count = await this.#draftModel.draft(requests);
    const endedAt = this.#now();
    if (count > 0) this.#policy.recordDraftSteps(count, maxPerSequence, endedAt - caughtUpAt);
    const rest = chosen.filter((one) => this.#isBehind(one));
    if (count === 0 && rest.length > 0) this.#unfinished = { draftsPerSequence, chosen: rest };
    this.#finished = { draftsPerSequence: count > 0 ? draftsPerSequence : 0, ms: endedAt - startedAt };
  }

  /** Returns the result of the round before this step, once. */
  takeFinished(): DoneRound | undefined {
    const finished = this.#finished;
    this.#finished = undefined;
    return finished;
  }

  /** Records that a step took `ms`, and how many tokens of the draft model it accepted. */
  recordStep(step: InFlightStep, ms: number, accepted: number): void {
    const { rows, drafts, prefillTokens, hasExtraWork, draftRoundMs } = step;
    const isPure = prefillTokens === 0 && !hasExtraWork;
    if (draftRoundMs === 0) {
      if (isPure && drafts === 0) this.#policy.recordPlainStep(ms);
      return;
    }
    const decoding = Math.max(1, rows - drafts);
    const plainMs = this.#drafting.plainMs(decoding);
    // Other work in the step does not count against the round.
    if (plainMs !== undefined)
      this.#policy.recordRound(draftRoundMs + (isPure ? ms : plainMs), 1 + accepted / decoding, plainMs);
  }

  /** Computes a chunk of the missing tokens, oldest sequence first. */
  async #catchUp(running: readonly Sequence[], chosen: readonly Sequence[]): Promise<void> {
    const behind = chosen.filter((one) => this.#isBehind(one));
    if (behind.length === 0) return;
    const startedAt = this.#now();
    const isShared = running.filter(isDecoding).length > 1;
    const computed = await this.#draftModel.catchUp(behind, this.#catchUpChunker.chunkTokens(isShared));
    this.#catchUpChunker.recordStepTime(computed, this.#now() - startedAt);
  }

  /** Assigns draft rows to sequences in the same order as the following step will. */
  #assignDrafts(
    running: readonly Sequence[],
    { draftsPerSequence, chosen }: DueRound,
  ): { requests: DraftRequest[]; maxPerSequence: number } {
    const requests: DraftRequest[] = [];
    let left = draftRowBudget(running, this.#capacity);
    let maxPerSequence = 0;
    for (const sequence of running) {
      if (!isDecoding(sequence)) continue;
      const limit = chosen.includes(sequence) ? this.#verifiableDrafts(sequence) : 0;
      const count = Math.min(
        draftsPerSequence,
        left,
        limit === 0 ? maxDraftsFor(sequence, this.#capacity) : limit,
      );
      left -= count;
      if (limit === 0 || count < 1 || !sequence.modelDrafter) continue;
      requests.push({ sequence, drafter: sequence.modelDrafter, count });
      maxPerSequence = Math.max(maxPerSequence, count);
    }
    return { requests, maxPerSequence };
  }

  /**
   * Most tokens to draft for a sequence: 0 while it has a draft, and 0 when prompt lookup has a draft with an equal
   * or better acceptance rate, because that one is free.
   */
  #draftLimit(sequence: Sequence): number {
    const { modelDrafter, lookupDrafter } = sequence;
    if (!modelDrafter || modelDrafter.availableTokens > 0) return 0;
    if (
      lookupDrafter &&
      lookupDrafter.availableTokens > 0 &&
      lookupDrafter.acceptance >= modelDrafter.acceptance
    )
      return 0;
    return this.#verifiableDrafts(sequence);
  }

  #isBehind(sequence: Sequence): boolean {
    return this.#verifiableDrafts(sequence) > 0 && this.#draftModel.catchUpTokens(sequence) > 0;
  }

  /** Most tokens that can be drafted for a sequence and verified in one step. */
  #verifiableDrafts(sequence: Sequence): number {
    if (!isDecoding(sequence)) return 0;
    return Math.min(
      maxVerifiableDrafts(sequence, this.#capacity),
      this.#draftModel.draftableTokens(sequence),
    );
  }
}
