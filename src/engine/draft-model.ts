import { afterGuess, type Drafter } from './drafter.ts';
import { DraftLanes } from './draft-lanes.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from './sequence.ts';
import { feedback, type StepInput } from './step.ts';
import type { StepRunner } from './step-runner.ts';

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
const nearTokens = maxDrafts + 1;

/**
 * Drafts of the draft model for one sequence. Unlike prompt lookup, it can only propose tokens that a draft round has
 * computed.
 */
export class ModelGuess implements Drafter {
  readonly #tokens: readonly number[];
  #guess: readonly number[] = [];
  /** Length of the text that the draft continues. */
  #after = 0;
  acceptance: number;

  /** @param tokens prompt and output; the caller appends to it and then calls `observe` */
  constructor(tokens: readonly number[], acceptance: number) {
    this.#tokens = tokens;
    this.acceptance = acceptance;
  }

  get most(): number {
    return Math.max(0, this.#guess.length - (this.#tokens.length - this.#after));
  }

  /** @param draft tokens expected after the current text */
  hold(guess: readonly number[]): void {
    this.#guess = guess;
    this.#after = this.#tokens.length;
  }

  observe(): boolean | undefined {
    const expected = this.#guess[this.#tokens.length - 1 - this.#after];
    if (expected === undefined) return undefined;
    const hit = expected === this.#tokens.at(-1);
    this.acceptance = afterGuess(this.acceptance, hit);
    if (!hit) this.#guess = [];
    return hit;
  }

  propose(skip: number, count: number): number[] {
    const from = this.#tokens.length - this.#after + skip;
    return this.#guess.slice(from, from + count);
  }
}

/** A sequence to draft for, and the number of draft tokens. */
export interface Drafted {
  readonly sequence: Sequence;
  readonly guess: ModelGuess;
  readonly count: number;
}

/**
 * A smaller model that drafts tokens for a larger one. It samples with the same parameters and the same noise as the
 * larger model, so two models that agree on a distribution also agree on the token sampled from it.
 */
export class DraftModel {
  readonly #runner: DraftRunner;
  readonly #lanes: DraftLanes;
  /** Each step is written to the GPU when it is submitted, so one input object serves all steps. */
  readonly #step: StepInput;
  /** Vocabulary size of the target model. */
  readonly #known: number;

  /** @param vocabulary vocabulary size of the target model */
  constructor(runner: DraftRunner, vocabulary: number) {
    this.#runner = runner;
    this.#lanes = new DraftLanes(runner);
    this.#step = runner.newStep();
    this.#known = vocabulary;
  }

  /** Number of tokens that can be drafted after the sequence's text within the draft model's context and pages. */
  room(sequence: Sequence): number {
    // The last draft is sampled but not written to the cache.
    const room = this.#runner.memory.capacity.context - sequence.tokens.length + 1;
    if (room < 1) return 0;
    const most = Math.min(room, maxDrafts);
    return this.#lanes.fits(sequence, sequence.tokens.length + most - 1) ? most : 0;
  }

  /**
   * Tokens that must be computed before drafting for this sequence; 0 when the first drafting step can compute them.
   */
  lag(sequence: Sequence): number {
    const missing = this.#lanes.missing(sequence);
    return missing > nearTokens ? missing : 0;
  }

  forget(): void {
    this.#lanes.forget();
  }

  /** Computes up to `limit` missing tokens of these sequences, in order. @returns the number of computed tokens */
  async catchUp(sequences: readonly Sequence[], most: number): Promise<number> {
    const step = this.#step;
    step.clear();
    let left = Math.min(most, this.#runner.memory.capacity.stepTokens);
    for (const sequence of sequences) {
      const { tokens, slot } = sequence;
      const missing = this.#lanes.missing(sequence);
      const first = tokens.length - missing;
      const count = Math.min(left, missing - 1);
      if (count === 0 || !this.#lanes.grow(sequence, first + count)) continue;
      step.prefillTokens(this.#ids(tokens), first, count, slot);
      this.#lanes.write(sequence, tokens.slice(first, first + count));
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
  async guess(drafted: readonly Drafted[]): Promise<number> {
    let rows = this.#runner.memory.capacity.stepTokens;
    const able = drafted.filter(({ sequence, count }) => {
      const missing = this.#lanes.missing(sequence);
      const fits = missing <= Math.min(nearTokens, rows);
      if (!fits || !this.#lanes.grow(sequence, sequence.tokens.length + count - 1)) return false;
      rows -= missing;
      return true;
    });
    if (able.length === 0) return 0;
    const rounds = Math.max(...able.map(({ count }) => count));
    const drawn = await this.#runner.submitChain(this.#chain(able, rounds));
    const guesses = able.map((): number[] => []);
    let at = 0;
    for (let n = 0; n < rounds; n++) {
      for (const [index, { count }] of able.entries()) {
        if (n < count) guesses[index]?.push(drawn[at++] as number);
      }
    }
    for (const [index, { sequence, guess }] of able.entries()) {
      const ids = guesses[index] as number[];
      this.#lanes.write(sequence, ids.slice(0, -1));
      // Token ids outside the target's vocabulary, and ids from invalid logits, cannot be verified.
      const end = ids.findIndex((id) => id >= this.#known);
      guess.hold(end < 0 ? ids : ids.slice(0, end));
    }
    return able.length;
  }

  /**
   * Yields a step that computes missing tokens and samples the first draft of each sequence, then one step for each
   * further draft.
   */
  *#chain(drafted: readonly Drafted[], rounds: number): Generator<StepInput> {
    const step = this.#step;
    step.clear();
    for (const { sequence } of drafted) {
      const { tokens, slot, request } = sequence;
      const missing = this.#lanes.missing(sequence);
      const first = tokens.length - missing;
      const [id = 0, ...more] = this.#ids(tokens.slice(first));
      const row =
        more.length === 0 ? step.decodeToken(id, first, slot) : step.verifyTokens(id, more, first, slot);
      step.sample(row + more.length, slot, tokens.length, request.sampling);
      this.#lanes.write(sequence, tokens.slice(first));
    }
    yield step;
    for (let n = 1; n < rounds; n++) {
      step.clear();
      for (const { sequence, count } of drafted) {
        if (n >= count) continue;
        const { slot, tokens, request } = sequence;
        const position = tokens.length + n - 1;
        step.sample(step.decodeToken(feedback, position, slot), slot, position + 1, request.sampling);
      }
      yield step;
    }
  }

  /** Token ids for the draft model: ids outside its vocabulary become 0. That only makes a draft worse. */
  #ids(tokens: readonly number[]): readonly number[] {
    const { vocabulary } = this.#runner.graph.shape;
    return vocabulary >= this.#known ? tokens : tokens.map((id) => (id < vocabulary ? id : 0));
  }
}
