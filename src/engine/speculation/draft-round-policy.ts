import { type DraftCandidate, type DraftPolicy, draftSizes } from './draft-policy.ts';
import { maxDrafts } from './prompt-lookup.ts';

/** Smoothing factors of step times and of the overall acceptance rate. */
const costRate = 0.25;
const acceptanceRate = 0.05;
/**
 * Bounds of the credit, in plain step times: how much drafting may lose before it has gained anything, and how much
 * gain is kept to offset later losses.
 */
const minCredit = -32;
const maxCredit = 128;
/** Fraction of the time of plain steps that may be spent on trying drafting again. */
const trialShare = 0.02;
/** Steps without a round after which one is tried; doubled after each unsuccessful trial. */
const initialTrialInterval = 64;
const maxTrialInterval = 1024;

/** Number of rounds after which plain steps are measured again, so that rounds are compared with recent times. */
const roundsPerCalibration = 96;
/** The first one has no step in flight before it, so its time is not representative. */
const calibrationSteps = 3;

/** A draft round that could run before the next step. */
interface RoundOption {
  /** Every decoding sequence, with the drafts of this round and without them. */
  readonly withDrafts: readonly DraftCandidate[];
  readonly withoutDrafts: readonly DraftCandidate[];
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
  readonly horizonTokens: number;
}

/**
 * Decides whether the draft model drafts before the next step, and how many tokens for each sequence. In addition to
 * estimates, it accounts for the time that rounds actually gained or lost against plain steps. After too many losses
 * there are no rounds until plain steps have earned a trial, so a poor draft model costs almost nothing.
 */
export class DraftRoundPolicy {
  /** Recent acceptance rate over all sequences; the initial value for a new one. */
  acceptance = 0.6;
  readonly #drafting: DraftPolicy;
  /** Time of a step of the draft model, by the number of sequences in it. */
  readonly #stepMs: (number | undefined)[] = [];
  #creditMs = 0;
  #roundCount = 0;
  #calibrationStepsLeft = 0;
  #stepsSinceTrial = 0;
  #trialInterval = initialTrialInterval;

  constructor(drafting: DraftPolicy) {
    this.#drafting = drafting;
  }

  /** Records that this many steps of the draft model, for `count` sequences, took `ms`. */
  recordDraftSteps(count: number, steps: number, ms: number): void {
    const known = this.#stepMs[count];
    const msPerStep = ms / steps;
    this.#stepMs[count] = known === undefined ? msPerStep : known + (msPerStep - known) * costRate;
  }

  /** Records whether a draft token of any sequence was accepted. */
  observe(hit: boolean): void {
    this.acceptance += (Number(hit) - this.acceptance) * acceptanceRate;
  }

  /** Records that a plain step took `ms`. */
  recordPlainStep(ms: number): void {
    this.#stepsSinceTrial += 1;
    // Plain steps only earn the credit for one trial; a positive credit comes from gains alone.
    if (this.#creditMs < 0) this.#creditMs = Math.min(0, this.#creditMs + ms * trialShare);
  }

  /**
   * Records that a round and the step after it took `ms`.
   * @param tokens average number of tokens each sequence gained
   * @param plainMs time a plain step would have taken
   */
  recordRound(ms: number, tokens: number, plainMs: number): void {
    this.#roundCount += 1;
    if (this.#roundCount % roundsPerCalibration === 0) this.#calibrationStepsLeft = calibrationSteps;
    this.#creditMs = Math.min(maxCredit * plainMs, this.#creditMs + tokens * plainMs - ms);
  }

  /** Number of drafts for each sequence; 0 for no round. */
  chooseDrafts(round: RoundOption): number {
    const { withDrafts, withoutDrafts, rows, promptMs, catchUpMs, horizonTokens } = round;
    const { mode } = this.#drafting;
    if (mode === 'off' || rows < 1 || round.count === 0) return 0;
    if (mode === 'always') return maxDrafts;
    if (this.#calibrationStepsLeft > 0) {
      this.#calibrationStepsLeft -= 1;
      return 0;
    }
    const plainMs = this.#drafting.plainMs(withoutDrafts.length);
    // There is no measurement to compare with yet.
    if (plainMs === undefined || this.#creditMs - catchUpMs < minCredit * plainMs) return 0;
    let best = 0;
    let bestMsPerToken = 1 / this.#drafting.bestSize(withoutDrafts, rows, promptMs).tokensPerMs;
    for (const size of draftSizes) {
      const { tokens, ms } = this.#drafting.estimate(withDrafts, size, rows);
      const roundMs = size * this.#roundStepMs(round.count);
      const msPerToken = (ms + promptMs + roundMs) / tokens + catchUpMs / horizonTokens;
      if (msPerToken < bestMsPerToken) {
        best = size;
        bestMsPerToken = msPerToken;
      }
    }
    if (best > 0) {
      this.#stepsSinceTrial = 0;
      this.#trialInterval = initialTrialInterval;
      return best;
    }
    // Acceptance and step times change, so drafting is tried again at times.
    if (this.#creditMs < 0 || this.#stepsSinceTrial < this.#trialInterval) return 0;
    this.#stepsSinceTrial = 0;
    this.#trialInterval = Math.min(maxTrialInterval, this.#trialInterval * 2);
    return draftSizes[1];
  }

  /** Time of a draft step; for an unmeasured number of sequences, the time of the nearest measured number. */
  #roundStepMs(count: number): number {
    for (let distance = 0; distance < this.#stepMs.length + count; distance++) {
      const known = this.#stepMs[count - distance] ?? this.#stepMs[count + distance];
      if (known !== undefined) return known;
    }
    return 0;
  }
}
