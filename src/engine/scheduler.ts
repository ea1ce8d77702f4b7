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
 * Forms and submits steps while there is work, and delivers the sampled tokens. The next step is encoded while the
 * last one runs; it takes its input tokens from the GPU, so it need not wait for a readback. Results for a sequence
 * that ended in the meantime are dropped.
 *
 * The mask of a constrained sequence depends on its previous token. A step with constrained sequences is therefore
 * submitted in two parts: the forward pass at once, and the sampling when the previous step was read back and the
 * constraints have answered.
 *
 * With a draft model, draft rounds run between two steps, when no step is in flight: they continue from tokens that
 * were read back, and their drafts are verified in the next step.
 *
 * A sequence whose reader or constraint is slow is preempted and waits outside the queues until it can continue.
 */
export class Scheduler {
  readonly #runner: StepRunner;
  readonly #places: Places;
  readonly #composer: StepComposer;
  readonly #drafting: DraftPolicy;
  readonly #rounds: DraftRounds | undefined;
  readonly #counts: SchedulerCounts;
  readonly #inFlight: InFlight[] = [];
  /** Each step is written to the GPU when it is submitted, so one input object serves all steps. */
  readonly #step: StepInput;
  readonly #now: () => number;
  /** End of the last step; undefined before the first one. */
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
      /** Runner of the draft model. */
      draft?: DraftRunner | undefined;
      counts?: SchedulerCounts;
      reader?: Partial<ReaderLimits>;
      constraint?: Partial<ConstraintLimits>;
      /** Called when a step failed; this scheduler cannot run further steps. */
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

  /** Sequences that wait for a slot, or for their constraint's mask. */
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
    // Penalties and constraints depend on the previous token, which a draft row does not account for; and a rejected
    // draft cannot be removed from a layer's state.
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

  /** Ends a sequence in any phase. Its slot and pages are free at once, because the GPU executes steps in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    this.#parking.remove(sequence);
    this.#thinking.remove(sequence);
    this.#places.remove(sequence);
    this.#start();
  }

  /**
   * Runs `work` exclusively, when no sequence runs or waits. New sequences wait until it is done; sequences that wait
   * for their reader wait as well.
   * @param signal removes waiting work and rejects with the signal's reason; running work must observe the signal
   * itself
   */
  interlude<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const done = this.#interludes.add(work, signal);
    this.#start();
    return done;
  }

  /** Resolves when no step is in flight. */
  async settled(): Promise<void> {
    if (!this.#loop) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Fails all sequences and forms no further step. */
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
        // Work may have arrived between the last check and the end of the loop.
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
    // Stopped: the device must not be destroyed while it is computing.
    const last = this.#inFlight.splice(0).map((flight) => flight.results ?? this.#drawn(flight));
    await Promise.allSettled(last);
  }

  /** Submits steps until the pipeline is full. */
  #fill(): void {
    // A step blocks the next one while it verifies drafts, because the number of accepted tokens is unknown before
    // the readback; while its sampling is not submitted; and in models that need token ids on the CPU.
    const { needsIds = false } = this.#runner;
    const blocks = ({ drafts, results }: InFlight) => needsIds || drafts > 0 || !results;
    while (this.#inFlight.length < pipelineDepth && !this.#inFlight.some(blocks)) {
      this.#places.admit(this.#now());
      if (this.#rounds?.plan(this.#places.running)) return;
      const step = this.#submit();
      if (!step) return;
      // It is awaited later; this handler prevents an unhandled rejection until then.
      step.results?.catch(() => undefined);
      this.#inFlight.push(step);
    }
  }

  /** Submits the sampling of a step, once everything it depends on was read back. */
  async #draw(flight: InFlight): Promise<void> {
    await Promise.all(flight.shares.map((share) => this.#setMask(share)));
    if (this.#stopped) return;
    flight.results = this.#drawn(flight);
    flight.results.catch(() => undefined);
  }

  /** Runs the sampling part of a step whose forward pass is submitted. */
  async #drawn({ forwarded }: InFlight): Promise<Uint32Array> {
    if (forwarded) await forwarded;
    return await this.#runner.draw(this.#step);
  }

  /** Fails the running sequences of a step that was not executed. Waiting sequences are not affected. */
  #failRunning(reason: unknown): void {
    // `cancel` removes sequences from the list that is iterated.
    const all = Array.from(this.#places.running);
    for (const sequence of all) this.cancel(sequence, reason);
    this.forgetPrefixes();
  }

  /**
   * Sets the mask of an entry. A failure ends only this sequence, and a slow constraint delays only this sequence.
   */
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

  /** Forms a step and submits the part that does not depend on results still to be read back. */
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
    // Awaited before the sampling; this handler prevents an unhandled rejection until then.
    forwarded?.catch(() => undefined);
    const results = waits ? undefined : this.#runner.submit(step);
    const roundMs = round?.ms ?? 0;
    return { ...formed, samples, isUnusual, roundMs, pipelined, submitted, forwarded, results };
  }

  /** Preempts a sequence until its reader has caught up. */
  #park(sequence: Sequence): void {
    this.#places.leave(sequence);
    sequence.phase = 'parked';
    this.#parking.add(sequence);
  }

  /** Preempts a sequence until its constraint has answered. */
  async #think(sequence: Sequence): Promise<void> {
    this.#places.leave(sequence);
    sequence.phase = 'thinking';
    if (await this.#thinking.wait(sequence)) this.#comeBack(sequence);
  }

  #comeBack(sequence: Sequence): void {
    this.#places.queue(sequence);
    this.#start();
  }

  /** Records the time of a step. @returns its duration in ms */
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
        // The previous draft equals the token sampled after it, so this token follows a correct prefix.
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
   * Handles logits that are NaN. The cause may be another sequence: if one of its tokens produced NaN, cached pages
   * before that token may contain NaN as well, and this sequence may have reused them. So it is computed again
   * without the prefix cache.
   */
  #fault(sequence: Sequence): void {
    if (sequence.adopted > 0) {
      sequence.adopts = false;
      // Once the first token was delivered, the reported number of cached tokens stays.
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
        'no token can be sampled, because the logits are not finite: the model file is damaged, or its values overflow',
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

  /** A method, because `acceptToken` changes the phase. */
  #hasEnded(sequence: Sequence): boolean {
    return sequence.phase === 'done';
  }
}

/** True when reading the model file failed, not the device. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof EngineError && error.code === 'model_unreadable';
