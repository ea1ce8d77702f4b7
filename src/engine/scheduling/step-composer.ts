import { drafterOf, maxDraftsFor, planDrafts } from '../speculation/draft-plan.ts';
import type { DraftPolicy } from '../speculation/draft-policy.ts';
import type { SlotAllocator } from '../memory/slot-allocator.ts';
import type { PrefillChunker } from './prefill-chunker.ts';
import { scorableTokens, scorePrompt } from '../sampling/prompt-scores.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding, noDrafts, noScores, type BatchEntry } from './batch-entry.ts';
import type { RowRange } from '../../../kernels/define.ts';
import { feedbackToken, type StepInput, maxStepSamples } from '../execution/step.ts';
import type { StepRunner } from '../execution/step-runner.ts';

/** The contents of a step. */
export interface FormedStep {
  readonly entries: readonly BatchEntry[];
  /** Tokens of decoding sequences, and the number of drafts among them. */
  readonly rows: number;
  readonly drafts: number;
  readonly prefillTokens: number;
}

/**
 * Forms steps from the running sequences: one token for every decoding sequence, and prompt tokens of prefilling
 * sequences within the time budget, those of the client that got the least first.
 */
export class StepComposer {
  readonly #runner: StepRunner;
  readonly #allocator: SlotAllocator;
  readonly #drafting: DraftPolicy;
  readonly #prefillChunker: PrefillChunker;

  constructor(
    runner: StepRunner,
    parts: { allocator: SlotAllocator; drafting: DraftPolicy; prefillChunker: PrefillChunker },
  ) {
    this.#runner = runner;
    this.#allocator = parts.allocator;
    this.#drafting = parts.drafting;
    this.#prefillChunker = parts.prefillChunker;
  }

  /**
   * Fills a step; returns undefined when there is nothing to compute.
   * @param draftsPerSequence drafts for each sequence when a draft round has already decided it; 0 otherwise
   */
  compose(step: StepInput, draftsPerSequence = 0): FormedStep | undefined {
    step.clear();
    const entries: BatchEntry[] = [];
    const drafts = this.#addDecoding(step, entries, draftsPerSequence);
    const rows = step.dims.tokens;
    const prefillTokens = this.#addPrompts(step, entries);
    if (step.dims.tokens === 0)
      return this.#allocator.breakDeadlock() ? this.compose(step, draftsPerSequence) : undefined;
    step.stateCopies.unshift(...this.#allocator.takeDueCopies());
    return { entries, rows, drafts, prefillTokens };
  }

  /** Adds a token of every decoding sequence, and drafts where they pay off. @returns the number of drafts */
  #addDecoding(step: StepInput, entries: BatchEntry[], decidedDrafts: number): number {
    const { capacity } = this.#runner.memory;
    const plan = { capacity, drafting: this.#drafting, prefillChunker: this.#prefillChunker };
    const { draftsPerSequence, rows } = planDrafts(this.#allocator.running, plan, decidedDrafts);
    let drafted = 0;
    // In running order: a sequence that must be preempted comes later, so it has no entry in this step yet.
    for (let index = 0; index < this.#allocator.running.length; index++) {
      const sequence = this.#allocator.running[index] as Sequence;
      if (!isDecoding(sequence)) continue;
      const pendingTokens = sequence.sampledTokens - sequence.outputTokens;
      let drafts = noDrafts;
      const drafter = drafterOf(sequence);
      const isFromDraftModel = drafter !== undefined && drafter === sequence.modelDrafter;
      const wanted = Math.min(draftsPerSequence, rows - drafted, maxDraftsFor(sequence, capacity));
      // Drafts never preempt another sequence.
      if (wanted > 0 && this.#allocator.grow(sequence, sequence.scheduledTokens + 1 + wanted)) {
        drafts = drafter?.propose(pendingTokens, wanted) ?? noDrafts;
      }
      if (!this.#allocator.makeRoom(sequence, sequence.scheduledTokens + 1)) continue;
      this.#allocator.uploadPageTable(sequence);
      this.#allocator.shares.charge(sequence, 1);
      const id = pendingTokens === 0 ? (sequence.tokens.at(-1) as number) : feedbackToken;
      const { scheduledTokens, slot } = sequence;
      const row =
        drafts.length === 0
          ? step.decodeToken(id, scheduledTokens, slot)
          : step.verifyTokens(id, drafts, scheduledTokens, slot);
      const { sampling } = sequence.request;
      const firstSample = this.#sample(step, sequence, row, 1);
      for (let n = 1; n <= drafts.length; n++) {
        step.sample(row + n, slot, sequence.scheduledTokens + n, sampling, sequence.requestFlags);
      }
      entries.push(this.#makeEntry(sequence, { firstSample, drafts, isFromDraftModel }));
      drafted += drafts.length;
    }
    return drafted;
  }

  /**
   * Adds tokens of texts that are already known, each as many as fit: prompts, and answers of sequences that were
   * preempted. Those of the client that got the least come first. @returns the number of tokens
   */
  #addPrompts(step: StepInput, entries: BatchEntry[]): number {
    const { capacity } = this.#runner.memory;
    let left = Math.min(
      this.#prefillChunker.chunkTokens(entries.length > 0),
      capacity.stepTokens - step.dims.tokens,
    );
    let added = 0;
    // An answer is computed again on the kernels that computed it first, whose rows come before those of prompts.
    for (const range of step.separatesDecodeRows ? (['decode', 'prompt'] as const) : [undefined]) {
      for (const sequence of this.#allocator.shares.promptOrder()) {
        if (left === 0) break;
        if (sequence.phase !== 'prefill' || (range === 'decode' && sequence.outputTokens === 0)) continue;
        const count = this.#addText(step, sequence, { left, range }, entries);
        left -= count;
        added += count;
      }
    }
    return added;
  }

  /**
   * Adds up to `left` tokens of a text that is already known. @returns the number of tokens
   * @param range 'decode' for tokens of the answer only, 'prompt' for tokens of the prompt only
   */
  #addText(
    step: StepInput,
    sequence: Sequence,
    { left, range }: { left: number; range: RowRange | undefined },
    entries: BatchEntry[],
  ): number {
    const { tokens } = sequence;
    const promptTokens = sequence.request.prompt.length;
    // Tokens that are scored must be computed, so the prefix cache is not used.
    const { copy, state } =
      sequence.isScoring || !sequence.canReusePrefix ? {} : this.#allocator.reusePrefix(sequence);
    if (copy) step.pageCopies.push(copy);
    if (state) step.stateCopies.push(state);
    sequence.reportPromptStart();
    const firstPosition = sequence.scheduledTokens;
    if (range !== undefined && (range === 'decode') !== firstPosition >= promptTokens) return 0;
    const end = range === 'prompt' ? promptTokens : tokens.length;
    const wanted = Math.min(
      left,
      end - firstPosition,
      scorableTokens(sequence, this.#freeSamples(step)),
      range === 'decode' ? step.decodeRoom(firstPosition) : Number.POSITIVE_INFINITY,
    );
    const { count, shouldRetainState } = this.#allocator.fitPrompt(sequence, wanted);
    if (count === 0) return 0;
    // An answer that is computed again after a preemption was counted; most of a prompt then comes from the prefix cache.
    if (sequence.outputTokens === 0) this.#allocator.shares.charge(sequence, count);
    const row =
      range === 'decode'
        ? step.decodeTokens(tokens.slice(firstPosition, firstPosition + count), firstPosition, sequence.slot)
        : step.prefillTokens(tokens, firstPosition, count, sequence.slot);
    this.#allocator.uploadPageTable(sequence);
    const scores = scorePrompt(step, sequence, row, count);
    const isComplete = firstPosition + count === tokens.length;
    const samplesNext = isComplete && sequence.request.maxTokens > 0;
    if (isComplete) sequence.startDecoding();
    const hiddenStateSample =
      isComplete && sequence.request.hiddenState ? step.hiddenState(row, tokens.length) : undefined;
    const sample = samplesNext ? this.#sample(step, sequence, row, count) : undefined;
    if (!samplesNext) sequence.scheduleTokens(count);
    const evaluatedTokens = sequence.request.progress ? sequence.scheduledTokens : undefined;
    if (isComplete || scores.count > 0 || evaluatedTokens !== undefined)
      entries.push(
        this.#makeEntry(sequence, {
          firstSample: sample,
          scores,
          hiddenStateSample,
          endsAfterPrompt: isComplete && !samplesNext,
          evaluatedTokens,
        }),
      );
    this.#allocator.publish(sequence, shouldRetainState);
    return count;
  }

  /** Samples not reserved for the next tokens of prompts. */
  #freeSamples({ dims }: StepInput): number {
    const prompts = this.#allocator.running.reduce((sum, { phase }) => sum + Number(phase === 'prefill'), 0);
    return maxStepSamples(this.#runner.memory.capacity.slots) - dims.samples - prompts;
  }

  /** Requests the next token of a sequence. @returns the index among the step's samples */
  #sample(step: StepInput, sequence: Sequence, row: number, count: number): number {
    sequence.scheduleTokens(count);
    sequence.scheduleSample();
    const { request, slot, scheduledTokens, requestFlags } = sequence;
    return step.sample(row, slot, scheduledTokens, request.sampling, requestFlags);
  }

  #makeEntry(
    sequence: Sequence,
    {
      firstSample,
      drafts = noDrafts,
      isFromDraftModel = false,
      scores = noScores,
      hiddenStateSample,
      endsAfterPrompt = false,
      evaluatedTokens,
    }: Partial<BatchEntry>,
  ): BatchEntry {
    const { preemptionEpoch, sampledTokens, outputTokens, request } = sequence;
    // All earlier tokens are known, so the constraint can compute its mask while the forward pass runs.
    const isTextKnown =
      firstSample !== undefined && request.constraint !== undefined && sampledTokens === outputTokens + 1;
    if (isTextKnown) void sequence.masks.request(this.#runner.graph.shape.vocabulary);
    return {
      sequence,
      preemptionEpoch,
      firstSample,
      drafts,
      isFromDraftModel,
      scores,
      hiddenStateSample,
      endsAfterPrompt,
      evaluatedTokens,
    };
  }
}
