import { maxDrafts } from './prompt-lookup.ts';

/** `auto` drafts where measurement shows a gain; `always` drafts wherever a draft exists (tests and benchmarks). */
export type Speculation = 'auto' | 'always' | 'off';

/** The state of one decoding sequence that matters for drafting. */
export interface Candidate {
  /** Most drafts it can take; 0 when it has none. */
  readonly room: number;
  /** Sampled tokens not read back yet, which a draft must predict as well: 0 or 1. */
  readonly ahead: number;
  /** Fraction of its drafts that are accepted. */
  readonly acceptance: number;
}

/** Numbers of drafts for each sequence that are considered; each fills a matmul of a few columns. */
export const sizes = [1, 3, maxDrafts] as const;
/** Expected speedup that a verification step must reach. */
const margin = 1.15;
/** Smoothing factors of step times and of the overall acceptance rate. */
const costRate = 0.25;
const acceptanceRate = 0.02;
/** Steps without drafts after which a rejected size is measured again; doubled after each unsuccessful trial. */
const firstPause = 64;
const longestPause = 1024;

/**
 * Chooses how many drafts a sequence gets in the next step: the number with the highest expected tokens per ms, from
 * measured times of steps with that many rows and the observed acceptance rate. A step with drafts must be read back
 * before the next one can be formed; the measured times include that cost.
 */
export class DraftPolicy {
  readonly mode: Speculation;
  /** Recent acceptance rate over all sequences; the initial value for a new one. */
  acceptance = 0.5;
  readonly #plain: (number | undefined)[] = [];
  readonly #verify: (number | undefined)[] = [];
  /** Steps since drafts were last tried, and the interval after which they are tried even if they seem too slow. */
  #since = 0;
  #pause = firstPause;

  constructor(mode: Speculation) {
    this.mode = mode;
  }

  /** Records that a step without prompt tokens took `ms`, counted from the end of the previous step. */
  learn(kind: 'plain' | 'verify', rows: number, ms: number): void {
    const costs = kind === 'plain' ? this.#plain : this.#verify;
    const known = costs[rows];
    costs[rows] = known === undefined ? ms : known + (ms - known) * costRate;
  }

  /** Records whether a draft token of any sequence was accepted. */
  observe(hit: boolean): void {
    this.acceptance += (Number(hit) - this.acceptance) * acceptanceRate;
  }

  /**
   * Number of drafts for each sequence in the next step; 0 for none.
   * @param rows rows available for drafts in the step
   * @param promptMs expected time for the step's prompt tokens
   */
  choose(candidates: readonly Candidate[], rows: number, promptMs: number): number {
    if (this.mode === 'off' || rows < 1 || !candidates.some(({ room }) => room > 0)) return 0;
    if (this.mode === 'always') return maxDrafts;
    const count = candidates.length;
    const plain = this.#plain[count];
    // There is no measurement to compare with yet.
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
    // Step times change, and a single slow step must not disable drafting for ever. Drafts that are never accepted
    // are not retried.
    if (most < count * 1.5 || ++this.#since < this.#pause) return 0;
    this.#since = 0;
    this.#pause = Math.min(longestPause, this.#pause * 2);
    return likely;
  }

  /** Time in ms of a step that decodes this many sequences without drafts; undefined when not measured yet. */
  plainMs(count: number): number | undefined {
    return this.#plain[count];
  }

  /**
   * The best number of drafts, 0 when none is worth it, and its expected tokens per ms, which any alternative must
   * exceed.
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

  /** Expected tokens and time in ms of a verification step, without its prompt tokens. */
  expect(candidates: readonly Candidate[], size: number, rows: number): { tokens: number; ms: number } {
    const { length: count } = candidates;
    const { drafts, tokens } = expected(candidates, size, rows);
    return { tokens, ms: this.#verifyMs(count, count + drafts, this.#plain[count] ?? 0) };
  }

  /**
   * Time in ms of a verification step with this many rows; an unmeasured size is assumed to be as fast as possible.
   */
  #verifyMs(least: number, rows: number, plain: number): number {
    for (let fewer = rows; fewer > least; fewer--) {
      const known = this.#verify[fewer];
      if (known !== undefined) return Math.max(known, plain);
    }
    return plain;
  }
}

/** Draft rows used and tokens expected when each sequence gets up to `size` drafts. */
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
