import { updateAcceptance, type Drafter } from './drafter.ts';

/** Most drafts in one verification. */
export const maxDrafts = 7;

/**
 * Drafts tokens by prompt lookup: it proposes the tokens that followed the last occurrence of the same n-gram. Every
 * token that arrives is compared with the expected one, whether it was verified as a draft or not, so the acceptance
 * rate is free to measure.
 */
export class PromptLookup implements Drafter {
  readonly #tokens: readonly number[];
  /** Index of the expected next token; -1 without a draft. */
  #expectedIndex = -1;
  acceptance: number;

  /** @param tokens prompt and output; the caller appends to it and then calls `observe` */
  constructor(tokens: readonly number[], acceptance: number) {
    this.#tokens = tokens;
    this.acceptance = acceptance;
  }

  get availableTokens(): number {
    return this.#expectedIndex < 0 ? 0 : Number.POSITIVE_INFINITY;
  }

  observe(): boolean | undefined {
    const expected = this.#expectedIndex < 0 ? undefined : this.#tokens[this.#expectedIndex];
    const hit = expected === undefined ? undefined : expected === this.#tokens.at(-1);
    if (hit !== undefined) this.acceptance = updateAcceptance(this.acceptance, hit);
    this.#expectedIndex = hit ? this.#expectedIndex + 1 : findContinuation(this.#tokens);
    return hit;
  }

  propose(skip: number, count: number): number[] {
    const { length } = this.#tokens;
    const draft: number[] = [];
    for (let index = this.#expectedIndex; draft.length < skip + count; index++) {
      // Beyond the end of the text, the draft repeats itself, because repetitive text tends to continue.
      draft.push((index < length ? this.#tokens[index] : draft[index - length]) as number);
    }
    return draft.slice(skip);
  }
}

/**
 * Index after the latest earlier occurrence of the last three tokens, or else of the last two; -1 when there is none.
 */
function findContinuation(tokens: readonly number[]): number {
  const last = tokens.length - 1;
  const [third, second, first] = [tokens[last - 2], tokens[last - 1], tokens[last]];
  let bigramMatch = -1;
  for (let index = last - 1; index > 0; index--) {
    if (tokens[index] !== first || tokens[index - 1] !== second) continue;
    if (index > 1 && tokens[index - 2] === third) return index + 1;
    if (bigramMatch < 0) bigramMatch = index + 1;
  }
  return bigramMatch;
}
