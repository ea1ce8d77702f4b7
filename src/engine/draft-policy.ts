import { maxDrafts } from './prompt-lookup.ts';

/** `auto` drafts where it pays, by measurement; `always` wherever there is a guess (tests, benches). */
export type Speculation = 'auto' | 'always' | 'off';

/** One decoding sequence, as far as it matters for drafting. */
export interface Candidate {
  /** Drafts it can take at most; 0 when it has no guess. */
  readonly room: number;
  /** Tokens on their way that must be guessed as well: 0 or 1. */
  readonly ahead: number;
  /** Part of its guesses that come true. */
  readonly acceptance: number;
}

/** Drafts a sequence that are tried: each fills a matmul of a few columns. */
export const sizes = [1, 3, maxDrafts] as const;
/** A verification must be expected to be so much faster. */
const margin = 1.15;
/** How fast costs and the common acceptance follow what is measured. */
const costRate = 0.25;
const acceptanceRate = 0.02;
/** Steps without drafts after which a rejected size is measured again; doubled each time that it does not pay. */
const firstPause = 64;
const longestPause = 1024;

/**
 * Decides how many drafts a sequence gets in the next step: as many as promise most tokens a millisecond, by the
 * measured time of steps with so many rows and the acceptance seen. A step with drafts has to be read back before the
 * next one can be formed; what that costs is part of what is measured.
 */
export class DraftPolicy {
  readonly mode: Speculation;
  /** Of all sequences lately: where a new one begins. */
  acceptance = 0.5;
  readonly #plain: (number | undefined)[] = [];
  readonly #verify: (number | undefined)[] = [];
  /** Steps since drafts were last tried, and after how many they are tried although they seem not to pay. */
  #since = 0;
  #pause = firstPause;

  constructor(mode: Speculation) {
    this.mode = mode;
  }

  /** A step without prompt tokens took `ms`, from the end of the one before it. */
  learn(kind: 'plain' | 'verify', rows: number, ms: number): void {
    const costs = kind === 'plain' ? this.#plain : this.#verify;
    const known = costs[rows];
    costs[rows] = known === undefined ? ms : known + (ms - known) * costRate;
  }

  /** A guess of some sequence came true or not. */
  observe(hit: boolean): void {
    this.acceptance += (Number(hit) - this.acceptance) * acceptanceRate;
  }

  /**
   * Drafts a sequence of the next step; 0: none.
   * @param rows of drafts that the step has room for
   * @param promptMs what the step's prompt tokens will take
   */
  choose(candidates: readonly Candidate[], rows: number, promptMs: number): number {
    if (this.mode === 'off' || rows < 1 || !candidates.some(({ room }) => room > 0)) return 0;
    if (this.mode === 'always') return maxDrafts;
    const count = candidates.length;
    const plain = this.#plain[count];
    // Nothing to compare with yet.
    if (plain === undefined) return 0;
    const { size: best } = this.best(candidates, rows, promptMs);
    let likely = 0;
    let most = 0;
    for (const size of sizes) {
      const { tokens } = expected(candidates, size, rows);
      if (tokens > most * margin) {
        most = tokens;
        likely = size;
      }
    }
    if (best > 0) {
      this.#since = 0;
      this.#pause = firstPause;
      return best;
    }
    // Times change, and a single slow step must not decide for ever; but guesses that never come true are no use.
    if (most < count * 1.5 || ++this.#since < this.#pause) return 0;
    this.#since = 0;
    this.#pause = Math.min(longestPause, this.#pause * 2);
    return likely;
  }

  /** What a step takes in which so many sequences decode and nobody drafts; undefined: not measured yet. */
  plainMs(count: number): number | undefined {
    return this.#plain[count];
  }

  /**
   * The size that promises most, where that is enough to be worth it, and the tokens a millisecond that it or any other
   * choice has to beat.
   */
  best(candidates: readonly Candidate[], rows: number, promptMs: number): { size: number; rate: number } {
    const { length: count } = candidates;
    const plain = this.#plain[count] ?? 0;
    const most = { size: 0, rate: (count / (plain + promptMs)) * margin };
    for (const size of sizes) {
      const { tokens, ms } = this.expect(candidates, size, rows);
      const rate = tokens / (ms + promptMs);
      if (rate > most.rate) Object.assign(most, { size, rate });
    }
    return most;
  }

  /** Tokens that a verification is expected to give, and what it takes beside its prompt tokens. */
  expect(candidates: readonly Candidate[], size: number, rows: number): { tokens: number; ms: number } {
    const { length: count } = candidates;
    const { drafts, tokens } = expected(candidates, size, rows);
    return { tokens, ms: this.#verifyMs(count, count + drafts, this.#plain[count] ?? 0) };
  }

  /** What a verification of so many rows takes; unknown ones are taken for as cheap as they can be. */
  #verifyMs(least: number, rows: number, plain: number): number {
    for (let fewer = rows; fewer > least; fewer--) {
      const known = this.#verify[fewer];
      if (known !== undefined) return Math.max(known, plain);
    }
    return plain;
  }
}

/** Draft rows in use, and tokens expected, when each sequence gets `size` drafts as far as there is room. */
function expected(candidates: readonly Candidate[], size: number, rows: number) {
  let drafts = 0;
  let tokens = 0;
  for (const { room, ahead, acceptance } of candidates) {
    const own = Math.min(size, room, rows - drafts);
    drafts += own;
    tokens += 1;
    for (let n = 1; n <= own; n++) tokens += acceptance ** (n + ahead);
  }
  return { drafts, tokens };
}
