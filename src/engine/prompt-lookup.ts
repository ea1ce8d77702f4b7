import { afterGuess, type Drafter } from './drafter.ts';

/** Drafts a verification may hold. */
export const maxDrafts = 7;

/**
 * Guesses how a text goes on by what followed the same last tokens earlier in it. It checks every guess against the
 * token that comes, whether the guess was verified as a draft or not, so its acceptance costs nothing to know.
 */
export class PromptLookup implements Drafter {
  readonly #tokens: readonly number[];
  /** Index of the token that is expected next; -1 without a guess. */
  #next = -1;
  acceptance: number;

  /** @param tokens prompt and answer; the caller appends to it and then calls `observe` */
  constructor(tokens: readonly number[], acceptance: number) {
    this.#tokens = tokens;
    this.acceptance = acceptance;
  }

  get most(): number {
    return this.#next < 0 ? 0 : Number.POSITIVE_INFINITY;
  }

  observe(): boolean | undefined {
    const expected = this.#next < 0 ? undefined : this.#tokens[this.#next];
    const hit = expected === undefined ? undefined : expected === this.#tokens.at(-1);
    if (hit !== undefined) this.acceptance = afterGuess(this.acceptance, hit);
    this.#next = hit ? this.#next + 1 : lookUp(this.#tokens);
    return hit;
  }

  propose(skip: number, count: number): number[] {
    const { length } = this.#tokens;
    const guess: number[] = [];
    for (let index = this.#next; guess.length < skip + count; index++) {
      // Beyond the end the guess goes on with itself: a text that repeats itself goes on doing so.
      guess.push((index < length ? this.#tokens[index] : guess[index - length]) as number);
    }
    return guess.slice(skip);
  }
}

/** Where the latest earlier place with the same last three tokens goes on, or else the same last two; -1 for none. */
function lookUp(tokens: readonly number[]): number {
  const last = tokens.length - 1;
  const [third, second, first] = [tokens[last - 2], tokens[last - 1], tokens[last]];
  let two = -1;
  for (let index = last - 1; index > 0; index--) {
    if (tokens[index] !== first || tokens[index - 1] !== second) continue;
    if (index > 1 && tokens[index - 2] === third) return index + 1;
    if (two < 0) two = index + 1;
  }
  return two;
}
