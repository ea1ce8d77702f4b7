import { afterGuess, type Drafter } from './drafter.ts';
import { DraftLanes } from './draft-lanes.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from './sequence.ts';
import { feedback, type StepInput } from './step.ts';
import type { StepRunner } from './step-runner.ts';

/** What a draft model needs of its `Runner`. */
export interface DraftRunner extends StepRunner {
  /**
   * Steps one after the other, read back once: what each of them drew, in order. The same input may be given again,
   * filled anew, because a step is written before the next one is asked for.
   */
  submitChain(steps: Iterable<StepInput>): Promise<Uint32Array>;
}

/** Tokens of a text that may be computed in the step that draws the first guess; who misses more catches up before. */
const nearTokens = maxDrafts + 1;

/** What the draft model guesses of one sequence's text. Unlike a lookup it has only what a round has computed. */
export class ModelGuess implements Drafter {
  readonly #tokens: readonly number[];
  #guess: readonly number[] = [];
  /** Tokens of the text that the guess follows. */
  #after = 0;
  acceptance: number;

  /** @param tokens prompt and answer; the caller appends to it and then calls `observe` */
  constructor(tokens: readonly number[], acceptance: number) {
    this.#tokens = tokens;
    this.acceptance = acceptance;
  }

  get most(): number {
    return Math.max(0, this.#guess.length - (this.#tokens.length - this.#after));
  }

  /** @param guess of what follows the text as it is now */
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

/** A sequence that the model drafts for, and how many tokens. */
export interface Drafted {
  readonly sequence: Sequence;
  readonly guess: ModelGuess;
  readonly count: number;
}

/**
 * A smaller model that guesses what a larger one will draw. It draws as the larger one does, with the same sampling and
 * the same noise, so that models that agree about a distribution agree about the token drawn from it.
 */
export class DraftModel {
  readonly #runner: DraftRunner;
  readonly #lanes: DraftLanes;
  /** Written to the GPU when submitted, so one serves all steps. */
  readonly #step: StepInput;
  /** Ids that the larger model knows. */
  readonly #known: number;

  /** @param vocabulary of the model that it drafts for */
  constructor(runner: DraftRunner, vocabulary: number) {
    this.#runner = runner;
    this.#lanes = new DraftLanes(runner);
    this.#step = runner.newStep();
    this.#known = vocabulary;
  }

  /** Tokens that can be guessed behind the sequence's text, as far as the draft model's context and pages go. */
  room(sequence: Sequence): number {
    // The last guess is drawn and not written.
    const room = this.#runner.memory.capacity.context - sequence.tokens.length + 1;
    if (room < 1) return 0;
    const most = Math.min(room, maxDrafts);
    return this.#lanes.fits(sequence, sequence.tokens.length + most - 1) ? most : 0;
  }

  /** Tokens to compute before it can guess for this sequence; 0 where a step of guessing does so beside. */
  lag(sequence: Sequence): number {
    const missing = this.#lanes.missing(sequence);
    return missing > nearTokens ? missing : 0;
  }

  forget(): void {
    this.#lanes.forget();
  }

  /** Computes at most `most` tokens of these texts, in their order. @returns how many */
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

  /** Guesses for those that lag no more, as long as there are pages for them. @returns for how many */
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
      // Beyond what the larger model knows, and where the logits were no numbers, nothing can be verified.
      const end = ids.findIndex((id) => id >= this.#known);
      guess.hold(end < 0 ? ids : ids.slice(0, end));
    }
    return able.length;
  }

  /** A step that computes what is missing and draws the first guess of each, and a step for each further one. */
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

  /** As the draft model may read them: what it has no row for makes a bad guess, and no more than that. */
  #ids(tokens: readonly number[]): readonly number[] {
    const { vocabulary } = this.#runner.graph.shape;
    return vocabulary >= this.#known ? tokens : tokens.map((id) => (id < vocabulary ? id : 0));
  }
}
