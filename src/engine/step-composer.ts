import { drafterOf, draftRoom, planDrafts } from './draft-plan.ts';
import type { DraftPolicy } from './draft-policy.ts';
import { askConstraint } from './masks.ts';
import type { Places } from './places.ts';
import type { PromptPace } from './prompt-pace.ts';
import { scorableTokens, scorePrompt } from './prompt-scores.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding, noDrafts, noScores, type Share } from './share.ts';
import { feedback, type StepInput, stepSamples } from './step.ts';
import type { StepRunner } from './step-runner.ts';

/** The contents of a step. */
export interface FormedStep {
  readonly shares: readonly Share[];
  /** Tokens of decoding sequences, and the number of drafts among them. */
  readonly rows: number;
  readonly drafts: number;
  readonly prefillTokens: number;
}

/**
 * Forms steps from the running sequences: one token for every decoding sequence, and prompt tokens of the oldest
 * prefilling sequences within the time budget.
 */
export class StepComposer {
  readonly #runner: StepRunner;
  readonly #places: Places;
  readonly #drafting: DraftPolicy;
  readonly #pace: PromptPace;

  constructor(runner: StepRunner, parts: { places: Places; drafting: DraftPolicy; pace: PromptPace }) {
    this.#runner = runner;
    this.#places = parts.places;
    this.#drafting = parts.drafting;
    this.#pace = parts.pace;
  }

  /**
   * Fills a step; returns undefined when there is nothing to compute.
   * @param draftsPerSequence drafts for each sequence when a draft round has already decided it; 0 otherwise
   */
  compose(step: StepInput, each = 0): FormedStep | undefined {
    step.clear();
    const shares: Share[] = [];
    const drafts = this.#addDecoding(step, shares, each);
    const rows = step.dims.tokens;
    const prefillTokens = this.#addPrompts(step, shares);
    if (step.dims.tokens === 0) return this.#places.relieve() ? this.compose(step, each) : undefined;
    step.states.unshift(...this.#places.takeDue());
    return { shares, rows, drafts, prefillTokens };
  }

  /** Adds a token of every decoding sequence, and drafts where they pay off. @returns the number of drafts */
  #addDecoding(step: StepInput, shares: Share[], decided: number): number {
    const { capacity } = this.#runner.memory;
    const plan = { capacity, drafting: this.#drafting, pace: this.#pace };
    const { each, rows } = planDrafts(this.#places.running, plan, decided);
    let drafted = 0;
    // Oldest first: a sequence that must be preempted is younger, so it has no entry in this step yet.
    for (let index = 0; index < this.#places.running.length; index++) {
      const sequence = this.#places.running[index] as Sequence;
      if (!isDecoding(sequence)) continue;
      const ahead = sequence.drawn - sequence.answered;
      let drafts = noDrafts;
      const drafter = drafterOf(sequence);
      const fromModel = drafter !== undefined && drafter === sequence.model;
      const wanted = Math.min(each, rows - drafted, draftRoom(sequence, capacity));
      // Drafts never preempt another sequence.
      if (wanted > 0 && this.#places.grow(sequence, sequence.scheduled + 1 + wanted)) {
        drafts = drafter?.propose(ahead, wanted) ?? noDrafts;
      }
      if (!this.#places.makeRoom(sequence, sequence.scheduled + 1)) continue;
      this.#places.upload(sequence);
      const id = ahead === 0 ? (sequence.tokens.at(-1) as number) : feedback;
      const { scheduled, slot } = sequence;
      const row =
        drafts.length === 0
          ? step.decodeToken(id, scheduled, slot)
          : step.verifyTokens(id, drafts, scheduled, slot);
      const { sampling } = sequence.request;
      const first = this.#sample(step, sequence, row, 1);
      for (let n = 1; n <= drafts.length; n++) {
        step.sample(row + n, slot, sequence.scheduled + n, sampling, sequence.wants);
      }
      shares.push(this.#shareOf(sequence, { first, drafts, fromModel }));
      drafted += drafts.length;
    }
    return drafted;
  }

  /** Adds prompt tokens, oldest sequence first, each as many as fit. @returns the number of tokens */
  #addPrompts(step: StepInput, shares: Share[]): number {
    const { capacity } = this.#runner.memory;
    let left = Math.min(this.#pace.chunk(shares.length > 0), capacity.stepTokens - step.dims.tokens);
    let added = 0;
    for (let index = 0; index < this.#places.running.length && left > 0; index++) {
      const sequence = this.#places.running[index] as Sequence;
      if (sequence.phase !== 'prefill') continue;
      const count = this.#addPrompt(step, sequence, left, shares);
      left -= count;
      added += count;
    }
    return added;
  }

  /** Adds up to `left` tokens of a text that is already known. @returns the number of tokens */
  #addPrompt(step: StepInput, sequence: Sequence, left: number, shares: Share[]): number {
    const { tokens } = sequence;
    // Tokens that are scored must be computed, so the prefix cache is not used.
    const { copy, state } = sequence.isScoring || !sequence.adopts ? {} : this.#places.adopt(sequence);
    if (copy) step.copies.push(copy);
    if (state) step.states.push(state);
    sequence.beginPrompt();
    const first = sequence.scheduled;
    const wanted = Math.min(left, tokens.length - first, scorableTokens(sequence, this.#freeSamples(step)));
    const { count, keeps } = this.#places.fitPrompt(sequence, wanted);
    if (count === 0) return 0;
    const row = step.prefillTokens(tokens, first, count, sequence.slot);
    this.#places.upload(sequence);
    const scores = scorePrompt(step, sequence, row, count);
    const isWhole = first + count === tokens.length;
    const draws = isWhole && sequence.request.maxTokens > 0;
    if (isWhole) sequence.phase = 'decode';
    const sample = draws ? this.#sample(step, sequence, row, count) : undefined;
    if (!draws) sequence.scheduled += count;
    const evaluated = sequence.request.progress ? sequence.scheduled : undefined;
    if (isWhole || scores.count > 0 || evaluated !== undefined)
      shares.push(this.#shareOf(sequence, { first: sample, scores, isLast: isWhole && !draws, evaluated }));
    this.#places.publish(sequence, keeps);
    return count;
  }

  /** Samples not reserved for the next tokens of prompts. */
  #freeSamples({ dims }: StepInput): number {
    const prompts = this.#places.running.reduce((sum, { phase }) => sum + Number(phase === 'prefill'), 0);
    return stepSamples(this.#runner.memory.capacity.slots) - dims.samples - prompts;
  }

  /** Requests the next token of a sequence. @returns the index among the step's samples */
  #sample(step: StepInput, sequence: Sequence, row: number, count: number): number {
    sequence.scheduled += count;
    sequence.drawn += 1;
    const { request, slot, scheduled, wants } = sequence;
    return step.sample(row, slot, scheduled, request.sampling, wants);
  }

  #shareOf(
    sequence: Sequence,
    {
      first,
      drafts = noDrafts,
      fromModel = false,
      scores = noScores,
      isLast = false,
      evaluated,
    }: Partial<Share>,
  ): Share {
    const { departures, drawn, answered, request } = sequence;
    // All earlier tokens are known, so the constraint can compute its mask while the forward pass runs.
    const isKnown = first !== undefined && request.constraint !== undefined && drawn === answered + 1;
    if (isKnown) void askConstraint(sequence, this.#runner.graph.shape.vocabulary);
    return { sequence, departures, first, drafts, fromModel, scores, isLast, evaluated };
  }
}
