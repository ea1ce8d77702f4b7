/** Proposes draft tokens for one sequence. */
export interface Drafter {
  /** Most tokens that it can propose now; 0 when it has no draft. */
  readonly availableTokens: number;
  /** Recent fraction of its drafts that were accepted. */
  readonly acceptance: number;
  /**
   * Called after a token was appended to the text. @returns whether it was the expected one; undefined when none was
   * expected
   */
  observe(): boolean | undefined;
  /** Up to `count` tokens expected after the next `skip` ones. */
  propose(skip: number, count: number): number[];
}

/** Smoothing factor of a sequence's acceptance rate. */
const smoothing = 0.15;

/** The acceptance rate after one more observation. */
export const updateAcceptance = (acceptance: number, hit: boolean): number =>
  acceptance + (Number(hit) - acceptance) * smoothing;
