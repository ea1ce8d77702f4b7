import { type Candidate, type DraftPolicy, sizes } from './draft-policy.ts';
import { maxDrafts } from './prompt-lookup.ts';

/** How fast costs and the common acceptance follow what is measured. */
const costRate = 0.25;
const acceptanceRate = 0.05;
/** What guessing may lose, in plain steps, before it has gained anything; and what gains may be kept for losses to come. */
const leastCredit = -32;
const mostCredit = 128;
/** Of the time of plain steps, what may be lost on trying again whether guessing pays. */
const trialShare = 0.02;
/** Steps without a round after which one is tried; doubled each time that it does not pay. */
const firstPause = 64;
const longestPause = 1024;

/** After so many rounds some plain steps are measured again: what rounds are held against must not be of other times. */
const roundsAtOnce = 96;
/** The first of them has none before it on its way, and tells nothing. */
const plainSteps = 3;

/** What the draft model could do before the next step. */
interface Round {
  /** Every decoding sequence: as it would stand with the model's guesses, and as it stands without. */
  readonly guessed: readonly Candidate[];
  readonly plain: readonly Candidate[];
  /** How many of them the model would guess for. */
  readonly count: number;
  /** Of drafts that a step has room for. */
  readonly rows: number;
  /** What the step's prompt tokens take. */
  readonly promptMs: number;
  /** What the model has to compute first of texts that it does not know, and for how many tokens that may serve. */
  readonly catchUpMs: number;
  readonly horizon: number;
}

/**
 * Decides whether the draft model guesses before the next step, and how many tokens for each sequence. Beside what is
 * expected, it keeps an account of what rounds have really gained and lost against plain steps, and where they have lost
 * too much there are none until plain steps have paid for a trial: so a draft model that guesses badly costs next to nothing.
 */
export class RoundPolicy {
  /** Of all sequences lately: where a new one begins. */
  acceptance = 0.6;
  readonly #drafting: DraftPolicy;
  /** Of a step of the draft model, by the sequences in it. */
  readonly #stepMs: (number | undefined)[] = [];
  #credit = 0;
  #rounds = 0;
  #plainDue = 0;
  #since = 0;
  #pause = firstPause;

  constructor(drafting: DraftPolicy) {
    this.#drafting = drafting;
  }

  /** So many steps of the draft model, for so many sequences, took `ms`. */
  learn(count: number, steps: number, ms: number): void {
    const known = this.#stepMs[count];
    const each = ms / steps;
    this.#stepMs[count] = known === undefined ? each : known + (each - known) * costRate;
  }

  /** A guess of some sequence came true or not. */
  observe(hit: boolean): void {
    this.acceptance += (Number(hit) - this.acceptance) * acceptanceRate;
  }

  /** A plain step took `ms`. */
  earn(ms: number): void {
    this.#since += 1;
    // Enough for a trial; only gains are kept beyond it.
    if (this.#credit < 0) this.#credit = Math.min(0, this.#credit + ms * trialShare);
  }

  /**
   * A round and the step after it took `ms`.
   * @param tokens it gave to each sequence, on average
   * @param plainMs what a plain step would have taken
   */
  settle(ms: number, tokens: number, plainMs: number): void {
    this.#rounds += 1;
    if (this.#rounds % roundsAtOnce === 0) this.#plainDue = plainSteps;
    this.#credit = Math.min(mostCredit * plainMs, this.#credit + tokens * plainMs - ms);
  }

  /** Guesses a sequence; 0: no round. */
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
    // Nothing to compare with yet.
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
    // Texts change, and so do times.
    if (this.#credit < 0 || this.#since < this.#pause) return 0;
    this.#since = 0;
    this.#pause = Math.min(longestPause, this.#pause * 2);
    return sizes[1];
  }

  /** Unknown ones are taken for as cheap as the nearest that is known. */
  #roundStepMs(count: number): number {
    for (let away = 0; away < this.#stepMs.length + count; away++) {
      const known = this.#stepMs[count - away] ?? this.#stepMs[count + away];
      if (known !== undefined) return known;
    }
    return 0;
  }
}
