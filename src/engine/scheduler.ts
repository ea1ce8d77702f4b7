import { noToken, sampleFlags } from '../../kernels/sample.ts';
import { errorMessage } from '../util/error-message.ts';
import type { DraftRunner } from './draft-model.ts';
import { DraftPolicy, type Speculation } from './draft-policy.ts';
import { DraftRounds } from './draft-rounds.ts';
import { Interludes } from './interludes.ts';
import { setMask } from './masks.ts';
import { Parking, type ReaderLimits } from './parking.ts';
import { Places } from './places.ts';
import { PromptLookup } from './prompt-lookup.ts';
import { PromptPace } from './prompt-pace.ts';
import { pipelineDepth } from './runner.ts';
import { noCounts, type SchedulerCounts } from './scheduler-counts.ts';
import type { Sequence } from './sequence.ts';
import { type InFlight, isConstrained, isStale, type Share } from './share.ts';
import { flagsOf, type StepInput } from './step.ts';
import { StepComposer } from './step-composer.ts';
import { StepResults } from './step-results.ts';
import type { StepRunner } from './step-runner.ts';
import { type ConstraintLimits, Thinking } from './thinking.ts';
import { EngineError, type TokenLogprob } from './types.ts';

/**
 * Runs steps as long as somebody wants any, and hands out what they draw. The next step is encoded while the last one
 * runs; its tokens come from the GPU itself, so nothing waits for a readback. A sequence that ended in the meantime drops
 * its share.
 *
 * What a constraint allows depends on the token before. A step with constrained sequences is submitted in two parts: its
 * forward pass at once, its sampling when the step before was read back and their constraints have answered.
 *
 * Where another model drafts, its rounds run between two steps, when nothing is on its way: it goes on from tokens that have
 * been read back, and nothing is verified before it has guessed.
 *
 * A sequence whose reader or constraint is slow gives its place back, and waits elsewhere until they have caught up.
 */
export class Scheduler {
  readonly #runner: StepRunner;
  readonly #places: Places;
  readonly #composer: StepComposer;
  readonly #drafting: DraftPolicy;
  readonly #rounds: DraftRounds | undefined;
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
      /** Of a smaller model that drafts. */
      draft?: DraftRunner | undefined;
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
    this.#counts = options.counts ?? noCounts();
    const places = new Places(runner, () => (this.#counts.preemptions += 1));
    this.#places = places;
    this.#composer = new StepComposer(runner, { places, drafting: this.#drafting, pace: this.#pace });
    this.#step = runner.newStep();
    const { memory, graph } = runner;
    const target = { capacity: memory.capacity, vocabulary: graph.shape.vocabulary, pace: this.#pace, now };
    if (options.draft) this.#rounds = new DraftRounds(options.draft, { ...target, drafting: this.#drafting });
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
    this.#rounds?.forget();
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
      sequence.model = this.#rounds?.drafterFor(sequence);
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
        const why = errorMessage(error);
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
      if (!oldest) {
        if (!this.#rounds?.isDue) return;
        await this.#rounds.run(this.#places.running);
        this.#lastEnd = this.#now();
        continue;
      }
      if (!oldest.results) {
        await this.#draw(oldest);
        continue;
      }
      let results: StepResults;
      try {
        results = new StepResults(await oldest.results, oldest.samples);
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        this.#failRunning(error);
        continue;
      } finally {
        this.#inFlight.shift();
      }
      const ms = this.#learn(oldest);
      const { accepted } = this.#counts.byModel;
      this.#deliver(oldest, results);
      this.#rounds?.settle(oldest, ms, this.#counts.byModel.accepted - accepted);
    }
    // Stopped: the device may be destroyed only when it works on nothing.
    const last = this.#inFlight.splice(0).map((flight) => flight.results ?? this.#drawn(flight));
    await Promise.allSettled(last);
  }

  /** Submits as many steps as may be on their way at once. */
  #fill(): void {
    // How far a verification came is known only when it is read back; what follows a draw that waits, follows it; and where
    // ids must be known, those that are being drawn.
    const { needsIds = false } = this.#runner;
    const blocks = ({ drafts, results }: InFlight) => needsIds || drafts > 0 || !results;
    while (this.#inFlight.length < pipelineDepth && !this.#inFlight.some(blocks)) {
      this.#places.admit(this.#now());
      if (this.#rounds?.plan(this.#places.running)) return;
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
    flight.results = this.#drawn(flight);
    flight.results.catch(() => undefined);
  }

  /** The rest of a step whose forward pass is on its way. */
  async #drawn({ forwarded }: InFlight): Promise<Uint32Array> {
    if (forwarded) await forwarded;
    return await this.#runner.draw(this.#step);
  }

  /** A step was not run: whatever it was to write is not there. Who waits for a place is not concerned. */
  #failRunning(reason: unknown): void {
    // Each leaves the list of those that run.
    const all = Array.from(this.#places.running);
    for (const sequence of all) this.cancel(sequence, reason);
    this.forgetPrefixes();
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
    const round = this.#rounds?.take();
    const formed = this.#composer.compose(step, round?.each);
    if (!formed) return undefined;
    this.#places.submitted += 1;
    const { shares } = formed;
    const waits = shares.some(isConstrained);
    const isUnusual = waits || shares.some(({ scores }) => scores.count > 0);
    const { samples } = step.dims;
    const pipelined = this.#inFlight.length > 0;
    const submitted = this.#now();
    const forwarded = (waits && this.#runner.forward(step)) || undefined;
    // Awaited before the draw; until then a failure of it must not count as one that nobody handles.
    forwarded?.catch(() => undefined);
    const results = waits ? undefined : this.#runner.submit(step);
    const roundMs = round?.ms ?? 0;
    return { ...formed, samples, isUnusual, roundMs, pipelined, submitted, forwarded, results };
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

  /** @returns what it took */
  #learn(step: InFlight): number {
    const { prefillTokens, rows, drafts, submitted, pipelined, isUnusual } = step;
    const end = this.#now();
    const ms = end - (this.#lastEnd ?? submitted);
    this.#lastEnd = end;
    if (isUnusual) return ms;
    if (prefillTokens === 0) {
      if (drafts > 0) this.#drafting.learn('verify', rows, ms);
      else if (pipelined || this.#runner.needsIds) this.#drafting.learn('plain', rows, ms);
    }
    this.#pace.learn(prefillTokens, ms);
    return ms;
  }

  #deliver(step: InFlight, results: StepResults): void {
    const now = this.#now();
    for (const share of step.shares) {
      if (isStale(share)) continue;
      const { sequence, first, drafts, fromModel, scores, evaluated } = share;
      if (evaluated !== undefined) sequence.reportPrompt(evaluated, now);
      for (let n = 0; n < scores.count; n++) {
        const id = sequence.request.prompt[sequence.scores?.length ?? 0] as number;
        sequence.acceptScore(results.logprob(scores.first + n, id));
      }
      if (share.isLast) {
        sequence.endPrompt(now);
        this.#places.release(sequence);
      }
      if (first !== undefined) this.#deliverDraws(sequence, { first, drafts, fromModel }, results, now);
    }
  }

  #deliverDraws(
    sequence: Sequence,
    { first, drafts, fromModel }: { first: number; drafts: readonly number[]; fromModel: boolean },
    results: StepResults,
    now: number,
  ): void {
    const counts = fromModel ? [this.#counts, this.#counts.byModel] : [this.#counts];
    for (const one of counts) one.drafted += drafts.length;
    for (let n = 0; ; n++) {
      const id = results.token(first + n);
      if (n > 0) {
        // The draft before it was what would have been drawn, so this token follows from the right text.
        sequence.scheduled += 1;
        sequence.drawn += 1;
        for (const one of counts) one.accepted += 1;
      }
      if (id === noToken) return this.#fault(sequence);
      const isReported = sequence.request.logprobs !== undefined;
      this.#accept(sequence, id, now, isReported ? results.logprob(first + n, id) : undefined);
      if (this.#hasEnded(sequence) || id !== drafts[n]) break;
    }
    if (!this.#hasEnded(sequence) && this.#parking.isDue(sequence)) this.#park(sequence);
  }

  /**
   * Its logits are not numbers. That may be another text's doing: where one is broken by a token, what is kept of it may be
   * so some tokens before that, which is what other texts begin with. So it is tried again without anything that is kept.
   */
  #fault(sequence: Sequence): void {
    if (sequence.adopted > 0) {
      sequence.adopts = false;
      // What was told of the prompt with the answer's first token stays.
      if (sequence.answered === 0) sequence.cachedTokens = 0;
      this.#places.leave(sequence);
      this.forgetPrefixes();
      this.#comeBack(sequence);
      return;
    }
    this.cancel(
      sequence,
      new EngineError(
        'broken_model',
        'no token can be drawn, because the logits are not numbers: the model file is damaged, or its values overflow',
      ),
    );
    this.forgetPrefixes();
  }

  #accept(sequence: Sequence, id: number, now: number, logprob: TokenLogprob | undefined): void {
    sequence.accept(id, now, logprob);
    if (this.#hasEnded(sequence)) {
      this.#places.release(sequence);
      return;
    }
    const hit = sequence.lookup?.observe();
    if (hit !== undefined) this.#drafting.observe(hit);
    const came = sequence.model?.observe();
    if (came !== undefined) this.#rounds?.observe(came);
  }

  /** A method, because `accept` changes the phase. */
  #hasEnded(sequence: Sequence): boolean {
    return sequence.phase === 'done';
  }
}

/** The model's file, not the device, failed. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof EngineError && error.code === 'model_unreadable';
