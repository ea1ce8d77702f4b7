import { updateAcceptance, type Drafter } from './drafter.ts';
import { DraftKvCache } from './draft-kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { feedbackToken, type StepInput } from '../execution/step.ts';
import type { StepRunner } from '../execution/step-runner.ts';

/** The part of `Runner` that a draft model needs. */
export interface DraftRunner extends StepRunner {
  /**
   * Submits steps one after the other and reads the sampled tokens back once, in order. The iterable may yield the
   * same input object again, refilled, because each step is written to the GPU before the next one is requested.
   */
  submitChain(steps: Iterable<StepInput>): Promise<Uint32Array>;
}

/**
 * Most missing tokens that can be computed in the step that samples the first draft. A sequence that misses more is
 * caught up first.
 */
const maxInlineTokens = maxDrafts + 1;

/**
 * Drafts of the draft model for one sequence. Unlike prompt lookup, it can only propose tokens that a draft round has
 * computed.
 */
export class ModelDrafter implements Drafter {
  readonly #tokens: readonly number[];
  #draft: readonly number[] = [];
  /** Length of the text that the draft continues. */
  #draftStart = 0;
  acceptance: number;

  /** @param tokens prompt and output; the caller appends to it and then calls `observe` */
  constructor(tokens: readonly number[], acceptance: number) {
    this.#tokens = tokens;
    this.acceptance = acceptance;
  }

  get availableTokens(): number {
    return Math.max(0, this.#draft.length - (this.#tokens.length - this.#draftStart));
  }

  /** @param draft tokens expected after the current text */
  setDraft(draft: readonly number[]): void {
    this.#draft = draft;
    this.#draftStart = this.#tokens.length;
  }

  observe(): boolean | undefined {
    const expected = this.#draft[this.#tokens.length - 1 - this.#draftStart];
    if (expected === undefined) return undefined;
    const hit = expected === this.#tokens.at(-1);
    this.acceptance = updateAcceptance(this.acceptance, hit);
    if (!hit) this.#draft = [];
    return hit;
  }

  propose(skip: number, count: number): number[] {
    const from = this.#tokens.length - this.#draftStart + skip;
    return this.#draft.slice(from, from + count);
  }
}

/** A sequence to draft for, and the number of draft tokens. */
export interface DraftRequest {
  readonly sequence: Sequence;
  readonly drafter: ModelDrafter;
  readonly count: number;
}

/**
 * A smaller model that drafts tokens for a larger one. It samples with the same parameters and the same noise as the
 * larger model, so two models that agree on a distribution also agree on the token sampled from it.
 */
export class DraftModel {
  readonly #runner: DraftRunner;
  readonly #kvCache: DraftKvCache;
  /** Each step is written to the GPU when it is submitted, so one input object serves all steps. */
  readonly #step: StepInput;
  /** Vocabulary size of the target model. */
  readonly #targetVocabulary: number;

  /** @param vocabulary vocabulary size of the target model */
  constructor(runner: DraftRunner, vocabulary: number) {
    this.#runner = runner;
    this.#kvCache = new DraftKvCache(runner);
    this.#step = runner.newStep();
    this.#targetVocabulary = vocabulary;
  }

  /** Number of tokens that can be drafted after the sequence's text within the draft model's context and pages. */
  draftableTokens(sequence: Sequence): number {
    // The last draft is sampled but not written to the cache.
    const contextRoom = this.#runner.memory.capacity.context - sequence.tokens.length + 1;
    if (contextRoom < 1) return 0;
    const limit = Math.min(contextRoom, maxDrafts);
    return this.#kvCache.fits(sequence, sequence.tokens.length + limit - 1) ? limit : 0;
  }

  /**
   * Tokens that must be computed before drafting for this sequence; 0 when the first drafting step can compute them.
   */
  catchUpTokens(sequence: Sequence): number {
    const missing = this.#kvCache.missingTokens(sequence);
    return missing > maxInlineTokens ? missing : 0;
  }

  forgetPrefixes(): void {
    this.#kvCache.forgetPrefixes();
  }

  /** Computes up to `limit` missing tokens of these sequences, in order. @returns the number of computed tokens */
  async catchUp(sequences: readonly Sequence[], limit: number): Promise<number> {
    const step = this.#step;
    step.clear();
    let left = Math.min(limit, this.#runner.memory.capacity.stepTokens);
    for (const sequence of sequences) {
      const { tokens, slot } = sequence;
      const missing = this.#kvCache.missingTokens(sequence);
      const first = tokens.length - missing;
      const count = Math.min(left, missing - 1);
      if (count === 0 || !this.#kvCache.grow(sequence, first + count)) continue;
      step.prefillTokens(this.#toDraftIds(tokens), first, count, slot);
      this.#kvCache.recordWritten(sequence, tokens.slice(first, first + count));
      left -= count;
    }
    if (step.dims.tokens === 0) return 0;
    const computed = step.dims.tokens;
    await this.#runner.submitChain([step]);
    return computed;
  }

  /**
   * Drafts for the sequences that have caught up, as far as pages are available. @returns the number of sequences
   * drafted for
   */
  async draft(requests: readonly DraftRequest[]): Promise<number> {
    let rows = this.#runner.memory.capacity.stepTokens;
    const ready = requests.filter(({ sequence, count }) => {
      const missing = this.#kvCache.missingTokens(sequence);
      const fits = missing <= Math.min(maxInlineTokens, rows);
      if (!fits || !this.#kvCache.grow(sequence, sequence.tokens.length + count - 1)) return false;
      rows -= missing;
      return true;
    });
    if (ready.length === 0) return 0;
    const draftSteps = Math.max(...ready.map(({ count }) => count));
    const sampledIds = await this.#runner.submitChain(this.#makeSteps(ready, draftSteps));
    const drafts = ready.map((): number[] => []);
    let at = 0;
    for (let n = 0; n < draftSteps; n++) {
      for (const [index, { count }] of ready.entries()) {
        if (n < count) drafts[index]?.push(sampledIds[at++] as number);
      }
    }
    for (const [index, { sequence, drafter }] of ready.entries()) {
      const ids = drafts[index] as number[];
      this.#kvCache.recordWritten(sequence, ids.slice(0, -1));
      // Token ids outside the target's vocabulary, and ids from invalid logits, cannot be verified.
      const end = ids.findIndex((id) => id >= this.#targetVocabulary);
      drafter.setDraft(end < 0 ? ids : ids.slice(0, end));
    }
    return ready.length;
  }

  /**
   * Yields a step that computes missing tokens and samples the first draft of each sequence, then one step for each
   * further draft.
   */
  *#makeSteps(requests: readonly DraftRequest[], draftSteps: number): Generator<StepInput> {
    const step = this.#step;
    step.clear();
    for (const { sequence } of requests) {
      const { tokens, slot, request } = sequence;
      const missing = this.#kvCache.missingTokens(sequence);
      const first = tokens.length - missing;
      const [id = 0, ...more] = this.#toDraftIds(tokens.slice(first));
      const row =
        more.length === 0 ? step.decodeToken(id, first, slot) : step.verifyTokens(id, more, first, slot);
      step.sample(row + more.length, slot, tokens.length, request.sampling);
      this.#kvCache.recordWritten(sequence, tokens.slice(first));
    }
    yield step;
    for (let n = 1; n < draftSteps; n++) {
      step.clear();
      for (const { sequence, count } of requests) {
        if (n >= count) continue;
        const { slot, tokens, request } = sequence;
        const position = tokens.length + n - 1;
        step.sample(step.decodeToken(feedbackToken, position, slot), slot, position + 1, request.sampling);
      }
      yield step;
    }
  }

  /** Token ids for the draft model: ids outside its vocabulary become 0. That only makes a draft worse. */
  #toDraftIds(tokens: readonly number[]): readonly number[] {
    const { vocabulary } = this.#runner.graph.shape;
    return vocabulary >= this.#targetVocabulary ? tokens : tokens.map((id) => (id < vocabulary ? id : 0));
  }
}
