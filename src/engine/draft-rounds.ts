import { type Drafted, DraftModel, type DraftRunner, ModelGuess } from './draft-model.ts';
import { candidateOf, draftRoom, promptMsOf, rowsForDrafts, verifiable } from './draft-plan.ts';
import type { Candidate, DraftPolicy } from './draft-policy.ts';
import type { Capacity } from './memory.ts';
import { PromptPace } from './prompt-pace.ts';
import { RoundPolicy } from './round-policy.ts';
import type { Sequence } from './sequence.ts';
import { type InFlight, isDecoding } from './share.ts';

/** Tokens that a sequence is assumed to generate still, when its limit allows more. */
const usualRest = 128;

/** The result of a draft round for the step after it. */
interface DoneRound {
  /** Drafts for each sequence; 0 when the round only caught up. */
  readonly each: number;
  readonly ms: number;
}

interface DueRound {
  readonly each: number;
  readonly chosen: readonly Sequence[];
}

/**
 * Runs draft rounds of a draft model. A round runs between two steps, when no step is in flight: the draft model
 * computes the tokens it has not seen yet, a chunk at a time, then drafts for all chosen sequences together.
 */
export class DraftRounds {
  readonly #model: DraftModel;
  readonly #policy: RoundPolicy;
  readonly #drafting: DraftPolicy;
  readonly #capacity: Capacity;
  readonly #pace: PromptPace;
  readonly #ownPace = new PromptPace();
  readonly #now: () => number;
  /** The round to run next: the number of drafts and the chosen sequences. */
  #due: DueRound | undefined;
  /** Sequences that the previous round did not catch up with. */
  #unfinished: DueRound | undefined;
  #done: DoneRound | undefined;

  /** @param target the target model, as the scheduler sees it */
  constructor(
    runner: DraftRunner,
    target: {
      capacity: Capacity;
      vocabulary: number;
      drafting: DraftPolicy;
      pace: PromptPace;
      now: () => number;
    },
  ) {
    this.#model = new DraftModel(runner, target.vocabulary);
    this.#policy = new RoundPolicy(target.drafting);
    this.#drafting = target.drafting;
    this.#capacity = target.capacity;
    this.#pace = target.pace;
    this.#now = target.now;
  }

  /** Creates the drafter of a sequence that allows drafts. */
  drafterFor({ tokens }: Sequence): ModelGuess {
    return new ModelGuess(tokens, this.#policy.acceptance);
  }

  observe(hit: boolean): void {
    this.#policy.observe(hit);
  }

  forget(): void {
    this.#model.forget();
  }

  /** True when a round is decided but has not run; no step is formed before it runs. */
  get isDue(): boolean {
    return this.#due !== undefined;
  }

  /** Decides whether a round runs before the next step; returns true while one is due. */
  plan(running: readonly Sequence[]): boolean {
    if (this.#done || this.#drafting.mode === 'off') return false;
    this.#due ??= this.#unfinished;
    this.#unfinished = undefined;
    if (this.#due) return true;
    const rows = rowsForDrafts(running, this.#capacity);
    if (rows < 1) return false;
    const guessed: Candidate[] = [];
    const plain: Candidate[] = [];
    const chosen: Sequence[] = [];
    let [behind, horizon] = [0, 0];
    for (const sequence of running) {
      if (!isDecoding(sequence)) continue;
      const stands = candidateOf(sequence, this.#capacity);
      plain.push(stands);
      const room = this.#room(sequence);
      if (room === 0) {
        // No step is in flight when the step after a round is formed.
        guessed.push({ ...stands, ahead: 0 });
        continue;
      }
      guessed.push({ room, ahead: 0, acceptance: sequence.model?.acceptance ?? 0 });
      chosen.push(sequence);
      behind += this.#model.lag(sequence);
      horizon += Math.min(usualRest, sequence.request.maxTokens - sequence.drawn);
    }
    const count = chosen.length;
    if (count === 0) return false;
    const promptMs = promptMsOf(running, this.#pace);
    const catchUpMs = behind * this.#ownPace.tokenMs;
    const each = this.#policy.choose({ guessed, plain, count, rows, promptMs, catchUpMs, horizon });
    if (each > 0) this.#due = { each, chosen };
    return each > 0;
  }

  /** Runs the round that is due. Sequences may end meanwhile. */
  async run(running: readonly Sequence[]): Promise<void> {
    const { each, chosen } = this.#due ?? { each: 0, chosen: [] };
    this.#due = undefined;
    const began = this.#now();
    await this.#catchUp(running, chosen);
    const between = this.#now();
    const { drafted, most } = this.#share(running, { each, chosen });
    const count = await this.#model.guess(drafted);
    const ended = this.#now();
    if (count > 0) this.#policy.learn(count, most, ended - between);
    const rest = chosen.filter((one) => this.#lags(one));
    if (count === 0 && rest.length > 0) this.#unfinished = { each, chosen: rest };
    this.#done = { each: count > 0 ? each : 0, ms: ended - began };
  }

  /** Returns the result of the round before this step, once. */
  take(): DoneRound | undefined {
    const done = this.#done;
    this.#done = undefined;
    return done;
  }

  /** Records that a step took `ms`, and how many tokens of the draft model it accepted. */
  settle(step: InFlight, ms: number, accepted: number): void {
    const { rows, drafts, prefillTokens, isUnusual, roundMs } = step;
    const isPure = prefillTokens === 0 && !isUnusual;
    if (roundMs === 0) {
      if (isPure && drafts === 0) this.#policy.earn(ms);
      return;
    }
    const decoding = Math.max(1, rows - drafts);
    const plain = this.#drafting.plainMs(decoding);
    // Other work in the step does not count against the round.
    if (plain !== undefined)
      this.#policy.settle(roundMs + (isPure ? ms : plain), 1 + accepted / decoding, plain);
  }

  /** Computes a chunk of the missing tokens, oldest sequence first. */
  async #catchUp(running: readonly Sequence[], chosen: readonly Sequence[]): Promise<void> {
    const behind = chosen.filter((one) => this.#lags(one));
    if (behind.length === 0) return;
    const began = this.#now();
    const isShared = running.filter(isDecoding).length > 1;
    const computed = await this.#model.catchUp(behind, this.#ownPace.chunk(isShared));
    this.#ownPace.learn(computed, this.#now() - began);
  }

  /** Assigns draft rows to sequences in the same order as the following step will. */
  #share(running: readonly Sequence[], { each, chosen }: DueRound): { drafted: Drafted[]; most: number } {
    const drafted: Drafted[] = [];
    let left = rowsForDrafts(running, this.#capacity);
    let most = 0;
    for (const sequence of running) {
      if (!isDecoding(sequence)) continue;
      const own = chosen.includes(sequence) ? this.#able(sequence) : 0;
      const count = Math.min(each, left, own === 0 ? draftRoom(sequence, this.#capacity) : own);
      left -= count;
      if (own === 0 || count < 1 || !sequence.model) continue;
      drafted.push({ sequence, guess: sequence.model, count });
      most = Math.max(most, count);
    }
    return { drafted, most };
  }

  /**
   * Most tokens to draft for a sequence: 0 while it has a draft, and 0 when prompt lookup has a draft with an equal
   * or better acceptance rate, because that one is free.
   */
  #room(sequence: Sequence): number {
    const { model, lookup } = sequence;
    if (!model || model.most > 0) return 0;
    if (lookup && lookup.most > 0 && lookup.acceptance >= model.acceptance) return 0;
    return this.#able(sequence);
  }

  #lags(sequence: Sequence): boolean {
    return this.#able(sequence) > 0 && this.#model.lag(sequence) > 0;
  }

  /** Most tokens that can be drafted for a sequence and verified in one step. */
  #able(sequence: Sequence): number {
    if (!isDecoding(sequence)) return 0;
    return Math.min(verifiable(sequence, this.#capacity), this.#model.room(sequence));
  }
}
