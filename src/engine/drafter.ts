/** Guesses how one sequence's text goes on. */
export interface Drafter {
  /** Tokens that it can propose now, at most; 0: it has no guess. */
  readonly most: number;
  /** Part of its guesses that came true lately. */
  readonly acceptance: number;
  /** A token was appended to the text. @returns whether it was the one expected; undefined when none was */
  observe(): boolean | undefined;
  /** `count` tokens expected after the next `skip` ones; fewer where it has no more. */
  propose(skip: number, count: number): number[];
}

/** How fast the acceptance follows what is seen: of one sequence. */
const rate = 0.15;

/** The acceptance after another guess. */
export const afterGuess = (acceptance: number, hit: boolean): number =>
  acceptance + (Number(hit) - acceptance) * rate;
