import { noToken, sampleFlags } from '../../kernels/sample.ts';
import { DraftPolicy, type Speculation } from './draft-policy.ts';
import { Interludes } from './interludes.ts';
import { setMask } from './masks.ts';
import { Parking, type ReaderLimits } from './parking.ts';
import { Places } from './places.ts';
import { PromptLookup } from './prompt-lookup.ts';
import { PromptPace } from './prompt-pace.ts';
import { pipelineDepth } from './runner.ts';
import type { Sequence } from './sequence.ts';
import { type InFlight, isConstrained, isStale, type Share } from './share.ts';
import { flagsOf, type StepInput } from './step.ts';
import { StepComposer } from './step-composer.ts';
import { StepResults } from './step-results.ts';
import type { StepRunner } from './step-runner.ts';
import { type ConstraintLimits, Thinking } from './thinking.ts';
import { EngineError, type TokenLogprob } from './types.ts';

/** Totals that outlive a scheduler: a lost device gets a new one. */
export interface SchedulerCounts {
  /** Sequences that gave their place back for lack of pages. */
  preemptions: number;
  drafted: number;
  accepted: number;
}

/**
 * Runs steps as long as somebody wants any, and hands out what they draw. The next step is encoded while the last one
 * runs; its tokens come from the GPU itself, so nothing waits for a readback. A sequence that ended in the meantime drops
 * its share.
 *
 * What a constraint allows depends on the token before. A step with constrained sequences is submitted in two parts: its
 * forward pass at once, its sampling when the step before was read back and their constraints have answered.
 *
 * A sequence whose reader or constraint is slow gives its place back, and waits elsewhere until they have caught up.
 */
export class Scheduler {
  readonly #runner: StepRunner;
  readonly #places: Places;
  readonly #composer: StepComposer;
  readonly #drafting: DraftPolicy;
  readonly #counts: SchedulerCounts;
  readonly #inFlight: InFlight[] = [];
  /** Written to the GPU when submitted, so one serves all steps. */
  readonly #step: StepInput;
  readonly #now: () => number;
  /** When the last step ended, while the loop runs. */
  #lastEnd: number | undefined;
  readonly #pace = new PromptPace();
  readonly #parking: Parking;
  readonly #thinking: Thinking;
  #arrivals = 0;
  #loop: Promise<void> | undefined;
  #stopped = false;
  readonly #idle: (() => void)[] = [];
  readonly #interludes = new Interludes();
  readonly #onFailure: (reason: string) => void;

  constructor(
    runner: StepRunner,
    now: () => number,
    options: {
      speculation?: Speculation;
      counts?: SchedulerCounts;
      reader?: Partial<ReaderLimits>;
      constraint?: Partial<ConstraintLimits>;
      /** A step failed: nothing more can run here. */
      onFailure?: (reason: string) => void;
    } = {},
  ) {
    this.#runner = runner;
    this.#now = now;
    this.#drafting = new DraftPolicy(options.speculation ?? 'auto');
    this.#counts = options.counts ?? { preemptions: 0, drafted: 0, accepted: 0 };
    const places = new Places(runner, () => (this.#counts.preemptions += 1));
    this.#places = places;
    this.#composer = new StepComposer(runner, { places, drafting: this.#drafting, pace: this.#pace });
    this.#step = runner.newStep();
    this.#onFailure = options.onFailure ?? (() => {});
    this.#parking = new Parking(options.reader ?? {}, {
      leave: (sequence) => this.#comeBack(sequence),
      drop: (sequence, reason) => this.cancel(sequence, reason),
    });
    this.#thinking = new Thinking(options.constraint ?? {}, now);
  }

  get running(): number {
    return this.#places.running.length;
  }

  /** For a place, or for what their constraints allow. */
  get waiting(): number {
    return this.#places.waiting.length + this.#thinking.size;
  }

  get parked(): number {
    return this.#parking.size;
  }

  get pages(): { total: number; free: number; cached: number } {
    return this.#places.pages;
  }

  forgetPrefixes(): void {
    this.#places.forgetPrefixes();
  }

  add(sequence: Sequence): void {
    const { penalties } = sampleFlags;
    const { sampling, constraint } = sequence.request;
    // Each penalty depends on the tokens before, which a draft row would not have counted; so does a constraint. And what
    // a rejected draft has put into a layer's state cannot be taken out again.
    const hasStates = this.#runner.memory.capacity.keptStates !== undefined;
    const allowsDrafts = (flagsOf(sampling) & penalties) === 0 && !constraint && !hasStates;
    if (this.#drafting.mode !== 'off' && allowsDrafts) {
      sequence.lookup = new PromptLookup(sequence.tokens, this.#drafting.acceptance);
    }
    sequence.order = this.#arrivals++;
    this.#places.queue(sequence);
    this.#start();
  }

  /** Ends a sequence wherever it is; its slot and pages are free at once, because the GPU works in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    this.#parking.remove(sequence);
    this.#thinking.remove(sequence);
    this.#places.remove(sequence);
    this.#start();
  }

  /**
   * Runs `work` when nothing runs or waits; what comes meanwhile waits until it is done. Parked sequences wait too.
   * @param signal leaves the queue, with its reason; work that has begun looks at it by itself
   */
  interlude<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const done = this.#interludes.add(work, signal);
    this.#start();
    return done;
  }

  /** Resolves when no step is on its way. */
  async settled(): Promise<void> {
    if (!this.#loop) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Fails everything and forms no further step. */
  stop(reason: unknown): void {
    this.#stopped = true;
    const all = [...this.#places.clear(), ...this.#parking.clear(), ...this.#thinking.clear()];
    for (const sequence of all) sequence.fail(reason);
    this.#interludes.refuse(reason);
  }

  #start(): void {
    if (this.#loop || this.#stopped) return;
    const isIdle = this.#places.waiting.length === 0 && this.#places.running.length === 0;
    const interlude = isIdle ? this.#interludes.next() : undefined;
    this.#loop = (interlude?.run() ?? this.#run())
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
        this.#onFailure(why);
      })
      .finally(() => {
        this.#loop = undefined;
        // Something may have come between the last look and the end of the loop.
        const more = this.#places.waiting.length > 0 || this.#interludes.size > 0;
        if (more && !this.#stopped) this.#start();
        else this.#idle.splice(0).forEach((resolve) => resolve());
      });
  }

  async #run(): Promise<void> {
    this.#lastEnd = undefined;
    while (!this.#stopped) {
      this.#fill();
      const oldest = this.#inFlight[0];
      if (!oldest) return;
      if (!oldest.results) {
        await this.#draw(oldest);
        continue;
      }
      let results: StepResults;
      try {
        results = new StepResults(await oldest.results, oldest.samples);
      } finally {
        this.#inFlight.shift();
      }
      this.#learn(oldest);
      this.#deliver(oldest, results);
    }
    // Stopped: the device may be destroyed only when it works on nothing.
    const last = this.#inFlight.splice(0).map(({ results }) => results ?? this.#runner.draw(this.#step));
    await Promise.allSettled(last);
  }

  /** Submits as many steps as may be on their way at once. */
  #fill(): void {
    // How far a verification came is known only when it is read back; what follows a draw that waits, follows it.
    const blocks = ({ drafts, results }: InFlight) => drafts > 0 || !results;
    while (this.#inFlight.length < pipelineDepth && !this.#inFlight.some(blocks)) {
      this.#places.admit(this.#now());
      const step = this.#submit();
      if (!step) return;
      // It is awaited in its turn; until then a failure of it must not count as one that nobody handles.
      step.results?.catch(() => undefined);
      this.#inFlight.push(step);
    }
  }

  /** Submits the sampling of a step, when all that it depends on has been read back. */
  async #draw(flight: InFlight): Promise<void> {
    await Promise.all(flight.shares.map((share) => this.#setMask(share)));
    if (this.#stopped) return;
    flight.results = this.#runner.draw(this.#step);
    flight.results.catch(() => undefined);
  }

  /** Whatever goes wrong ends this sequence alone, and what takes long holds up this one alone. */
  async #setMask(share: Share): Promise<void> {
    if (!isConstrained(share) || isStale(share)) return;
    const { sequence } = share;
    try {
      const isSet = await this.#thinking.inTime(sequence, setMask(this.#runner, share));
      if (!isSet && !isStale(share)) void this.#think(sequence);
    } catch (error) {
      this.cancel(sequence, error);
    }
  }

  /** Forms a step and submits it, as far as it does not depend on what is still to be read back. */
  #submit(): InFlight | undefined {
    const step = this.#step;
    const formed = this.#composer.compose(step);
    if (!formed) return undefined;
    this.#places.submitted += 1;
    const { shares } = formed;
    const waits = shares.some(isConstrained);
    const isUnusual = waits || shares.some(({ scores }) => scores.count > 0);
    const { samples } = step.dims;
    const pipelined = this.#inFlight.length > 0;
    const submitted = this.#now();
    if (waits) this.#runner.forward(step);
    const results = waits ? undefined : this.#runner.submit(step);
    return { ...formed, samples, isUnusual, pipelined, submitted, results };
  }

  /** The sequence gives everything back and waits for its reader. */
  #park(sequence: Sequence): void {
    this.#places.leave(sequence);
    sequence.phase = 'parked';
    this.#parking.add(sequence);
  }

  /** The sequence gives everything back and waits for its constraint. */
  async #think(sequence: Sequence): Promise<void> {
    this.#places.leave(sequence);
    sequence.phase = 'thinking';
    if (await this.#thinking.wait(sequence)) this.#comeBack(sequence);
  }

  #comeBack(sequence: Sequence): void {
    this.#places.queue(sequence);
    this.#start();
  }

  #learn(step: InFlight): void {
    const { prefillTokens, rows, drafts, submitted, pipelined, isUnusual } = step;
    const end = this.#now();
    const ms = end - (this.#lastEnd ?? submitted);
    this.#lastEnd = end;
    if (isUnusual) return;
    if (prefillTokens === 0) {
      if (drafts > 0) this.#drafting.learn('verify', rows, ms);
      else if (pipelined) this.#drafting.learn('plain', rows, ms);
    }
    this.#pace.learn(prefillTokens, ms);
  }

  #deliver(step: InFlight, results: StepResults): void {
    const now = this.#now();
    for (const share of step.shares) {
      if (isStale(share)) continue;
      const { sequence, first, drafts, scores } = share;
      for (let n = 0; n < scores.count; n++) {
        const id = sequence.request.prompt[sequence.scores?.length ?? 0] as number;
        sequence.acceptScore(results.logprob(scores.first + n, id));
      }
      if (share.isLast) {
        sequence.endPrompt(now);
        this.#places.release(sequence);
      }
      if (first !== undefined) this.#deliverDraws(sequence, { first, drafts }, results, now);
    }
  }

  #deliverDraws(
    sequence: Sequence,
    { first, drafts }: { first: number; drafts: readonly number[] },
    results: StepResults,
    now: number,
  ): void {
    this.#counts.drafted += drafts.length;
    for (let n = 0; ; n++) {
      const id = results.token(first + n);
      if (n > 0) {
        // The draft before it was what would have been drawn, so this token follows from the right text.
        sequence.scheduled += 1;
        sequence.drawn += 1;
        this.#counts.accepted += 1;
      }
      const isReported = sequence.request.logprobs !== undefined && id !== noToken;
      this.#accept(sequence, id, now, isReported ? results.logprob(first + n, id) : undefined);
      if (this.#hasEnded(sequence) || id !== drafts[n]) break;
    }
    if (!this.#hasEnded(sequence) && this.#parking.isDue(sequence)) this.#park(sequence);
  }

  #accept(sequence: Sequence, id: number, now: number, logprob: TokenLogprob | undefined): void {
    if (id === noToken) {
      this.cancel(
        sequence,
        new EngineError(
          'broken_model',
          'no token can be drawn, because the logits are not numbers: the model file is damaged, or its values overflow',
        ),
      );
      return;
    }
    sequence.accept(id, now, logprob);
    if (this.#hasEnded(sequence)) {
      this.#places.release(sequence);
      return;
    }
    const hit = sequence.lookup?.observe();
    if (hit !== undefined) this.#drafting.observe(hit);
  }

  /** A method, because `accept` changes the phase. */
  #hasEnded(sequence: Sequence): boolean {
    return sequence.phase === 'done';
  }
}
