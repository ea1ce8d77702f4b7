import { maxDrafts } from './prompt-lookup.ts';

/** `auto` drafts where measurement shows a gain; `always` drafts wherever a draft exists (tests and benchmarks). */
export type SpeculationMode = 'auto' | 'always' | 'off';

/** The state of one decoding sequence that matters for drafting. */
export interface DraftCandidate {
  /** Most drafts it can take; 0 when it has none. */
  readonly draftLimit: number;
  /** Sampled tokens not read back yet, which a draft must predict as well: 0 or 1. */
  readonly pendingTokens: number;
  /** Fraction of its drafts that are accepted. */
  readonly acceptance: number;
}

/** Numbers of drafts for each sequence that are considered; each fills a matmul of a few columns. */
export const draftSizes = [1, 3, maxDrafts] as const;
/** Expected speedup that a verification step must reach. */
const minSpeedup = 1.15;
/** Smoothing factors of step times and of the overall acceptance rate. */
const costRate = 0.25;
const acceptanceRate = 0.02;
/** Steps without drafts after which a rejected size is measured again; doubled after each unsuccessful trial. */
const initialTrialInterval = 64;
const maxTrialInterval = 1024;

/**
 * Chooses how many drafts a sequence gets in the next step: the number with the highest expected tokens per ms, from
 * measured times of steps with that many rows and the observed acceptance rate. A step with drafts must be read back
 * before the next one can be formed; the measured times include that cost.
 */
export class DraftPolicy {
  readonly mode: SpeculationMode;
  /** Recent acceptance rate over all sequences; the initial value for a new one. */
  acceptance = 0.5;
  readonly #plainStepMs: (number | undefined)[] = [];
  readonly #verifyStepMs: (number | undefined)[] = [];
  /** Steps since drafts were last tried, and the interval after which they are tried even if they seem too slow. */
  #stepsSinceTrial = 0;
  #trialInterval = initialTrialInterval;

  constructor(mode: SpeculationMode) {
    this.mode = mode;
  }

  /** Records that a step without prompt tokens took `ms`, counted from the end of the previous step. */
  recordStepTime(kind: 'plain' | 'verify', rows: number, ms: number): void {
    const costs = kind === 'plain' ? this.#plainStepMs : this.#verifyStepMs;
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
  chooseDrafts(candidates: readonly DraftCandidate[], rows: number, promptMs: number): number {
    if (this.mode === 'off' || rows < 1 || !candidates.some(({ draftLimit }) => draftLimit > 0)) return 0;
    if (this.mode === 'always') return maxDrafts;
    const count = candidates.length;
    const plainMs = this.#plainStepMs[count];
    // There is no measurement to compare with yet.
    if (plainMs === undefined) return 0;
    const { size: best } = this.bestSize(candidates, rows, promptMs);
    let trialSize = 0;
    let bestTokens = 0;
    for (const size of draftSizes) {
      const { tokens } = estimateTokens(candidates, size, rows);
      if (tokens > bestTokens * minSpeedup) {
        bestTokens = tokens;
        trialSize = size;
      }
    }
    if (best > 0) {
      this.#stepsSinceTrial = 0;
      this.#trialInterval = initialTrialInterval;
      return best;
    }
    // Step times change, and a single slow step must not disable drafting for ever. Drafts that are never accepted
    // are not retried.
    if (bestTokens < count * 1.5 || ++this.#stepsSinceTrial < this.#trialInterval) return 0;
    this.#stepsSinceTrial = 0;
    this.#trialInterval = Math.min(maxTrialInterval, this.#trialInterval * 2);
    return trialSize;
  }

  /** Time in ms of a step that decodes this many sequences without drafts; undefined when not measured yet. */
  plainMs(count: number): number | undefined {
    return this.#plainStepMs[count];
  }

  /**
   * The best number of drafts, 0 when none is worth it, and its expected tokens per ms, which any alternative must
   * exceed.
   */
  bestSize(
    candidates: readonly DraftCandidate[],
    rows: number,
    promptMs: number,
  ): { size: number; tokensPerMs: number } {
    const { length: count } = candidates;
    const plainMs = this.#plainStepMs[count] ?? 0;
    const best = { size: 0, tokensPerMs: (count / (plainMs + promptMs)) * minSpeedup };
    for (const size of draftSizes) {
      const { tokens, ms } = this.estimate(candidates, size, rows);
      const tokensPerMs = tokens / (ms + promptMs);
      if (tokensPerMs > best.tokensPerMs) Object.assign(best, { size, tokensPerMs });
    }
    return best;
  }

  /** Expected tokens and time in ms of a verification step, without its prompt tokens. */
  estimate(
    candidates: readonly DraftCandidate[],
    size: number,
    rows: number,
  ): { tokens: number; ms: number } {
    const { length: count } = candidates;
    const { drafts, tokens } = estimateTokens(candidates, size, rows);
    return { tokens, ms: this.#verifyMs(count, count + drafts, this.#plainStepMs[count] ?? 0) };
  }

  /**
   * Time in ms of a verification step with this many rows; an unmeasured size is assumed to be as fast as possible.
   */
  #verifyMs(plainRows: number, rows: number, plainMs: number): number {
    for (let fewer = rows; fewer > plainRows; fewer--) {
      const known = this.#verifyStepMs[fewer];
      if (known !== undefined) return Math.max(known, plainMs);
    }
    return plainMs;
  }
}

/** Draft rows used and tokens expected when each sequence gets up to `size` drafts. */
function estimateTokens(candidates: readonly DraftCandidate[], size: number, rows: number) {
  let drafts = 0;
  let tokens = 0;
  for (const { draftLimit, pendingTokens, acceptance } of candidates) {
    const own = Math.min(size, draftLimit, rows - drafts);
    drafts += own;
    tokens += 1;
    for (let n = 1; n <= own; n++) tokens += acceptance ** (n + pendingTokens);
  }
  return { drafts, tokens };
}
