import { type Candidate, type DraftPolicy, sizes } from './draft-policy.ts';
import { maxDrafts } from './prompt-lookup.ts';

/** Smoothing factors of step times and of the overall acceptance rate. */
const costRate = 0.25;
const acceptanceRate = 0.05;
/**
 * Bounds of the credit, in plain step times: how much drafting may lose before it has gained anything, and how much
 * gain is kept to offset later losses.
 */
const leastCredit = -32;
const mostCredit = 128;
/** Fraction of the time of plain steps that may be spent on trying drafting again. */
const trialShare = 0.02;
/** Steps without a round after which one is tried; doubled after each unsuccessful trial. */
const firstPause = 64;
const longestPause = 1024;

/** Number of rounds after which plain steps are measured again, so that rounds are compared with recent times. */
const roundsAtOnce = 96;
/** The first one has no step in flight before it, so its time is not representative. */
const plainSteps = 3;

/** A draft round that could run before the next step. */
interface Round {
  /** Every decoding sequence, with the drafts of this round and without them. */
  readonly guessed: readonly Candidate[];
  readonly plain: readonly Candidate[];
  /** Number of sequences that the model would draft for. */
  readonly count: number;
  /** Rows available for drafts in the step. */
  readonly rows: number;
  /** Expected time of the step's prompt tokens. */
  readonly promptMs: number;
  /**
   * Time to compute the tokens that the draft model has not seen, and the number of output tokens over which that
   * cost is spread.
   */
  readonly catchUpMs: number;
  readonly horizon: number;
}

/**
 * Decides whether the draft model drafts before the next step, and how many tokens for each sequence. In addition to
 * estimates, it accounts for the time that rounds actually gained or lost against plain steps. After too many losses
 * there are no rounds until plain steps have earned a trial, so a poor draft model costs almost nothing.
 */
export class RoundPolicy {
  /** Recent acceptance rate over all sequences; the initial value for a new one. */
  acceptance = 0.6;
  readonly #drafting: DraftPolicy;
  /** Time of a step of the draft model, by the number of sequences in it. */
  readonly #stepMs: (number | undefined)[] = [];
  #credit = 0;
  #rounds = 0;
  #plainDue = 0;
  #since = 0;
  #pause = firstPause;

  constructor(drafting: DraftPolicy) {
    this.#drafting = drafting;
  }

  /** Records that this many steps of the draft model, for `count` sequences, took `ms`. */
  learn(count: number, steps: number, ms: number): void {
    const known = this.#stepMs[count];
    const each = ms / steps;
    this.#stepMs[count] = known === undefined ? each : known + (each - known) * costRate;
  }

  /** Records whether a draft token of any sequence was accepted. */
  observe(hit: boolean): void {
    this.acceptance += (Number(hit) - this.acceptance) * acceptanceRate;
  }

  /** Records that a plain step took `ms`. */
  earn(ms: number): void {
    this.#since += 1;
    // Plain steps only earn the credit for one trial; a positive credit comes from gains alone.
    if (this.#credit < 0) this.#credit = Math.min(0, this.#credit + ms * trialShare);
  }

  /**
   * Records that a round and the step after it took `ms`.
   * @param tokens average number of tokens each sequence gained
   * @param plainMs time a plain step would have taken
   */
  settle(ms: number, tokens: number, plainMs: number): void {
    this.#rounds += 1;
    if (this.#rounds % roundsAtOnce === 0) this.#plainDue = plainSteps;
    this.#credit = Math.min(mostCredit * plainMs, this.#credit + tokens * plainMs - ms);
  }

  /** Number of drafts for each sequence; 0 for no round. */
  choose(round: Round): number {
    const { guessed, plain, rows, promptMs, catchUpMs, horizon } = round;
    const { mode } = this.#drafting;
    if (mode === 'off' || rows < 1 || round.count === 0) return 0;
    if (mode === 'always') return maxDrafts;
    if (this.#plainDue > 0) {
      this.#plainDue -= 1;
      return 0;
    }
    const plainMs = this.#drafting.plainMs(plain.length);
    // There is no measurement to compare with yet.
    if (plainMs === undefined || this.#credit - catchUpMs < leastCredit * plainMs) return 0;
    let best = 0;
    let least = 1 / this.#drafting.best(plain, rows, promptMs).rate;
    for (const size of sizes) {
      const { tokens, ms } = this.#drafting.expect(guessed, size, rows);
      const roundMs = size * this.#roundStepMs(round.count);
      const each = (ms + promptMs + roundMs) / tokens + catchUpMs / horizon;
      if (each < least) {
        best = size;
        least = each;
      }
    }
    if (best > 0) {
      this.#since = 0;
      this.#pause = firstPause;
      return best;
    }
    // Acceptance and step times change, so drafting is tried again at times.
    if (this.#credit < 0 || this.#since < this.#pause) return 0;
    this.#since = 0;
    this.#pause = Math.min(longestPause, this.#pause * 2);
    return sizes[1];
  }

  /** Time of a draft step; for an unmeasured number of sequences, the time of the nearest measured number. */
  #roundStepMs(count: number): number {
    for (let away = 0; away < this.#stepMs.length + count; away++) {
      const known = this.#stepMs[count - away] ?? this.#stepMs[count + away];
      if (known !== undefined) return known;
    }
    return 0;
  }
}
