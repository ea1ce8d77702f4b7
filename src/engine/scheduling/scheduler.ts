import { noToken, sampleFlags } from '../../../kernels/sample.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { DraftRunner } from '../speculation/draft-model.ts';
import { DraftPolicy, type SpeculationMode } from '../speculation/draft-policy.ts';
import { DraftRounds } from '../speculation/draft-rounds.ts';
import { ExclusiveQueue } from './exclusive-queue.ts';
import { uploadMask } from '../sampling/masks.ts';
import { ReaderBackpressure, type ReaderLimits } from './reader-backpressure.ts';
import { SlotAllocator } from '../memory/slot-allocator.ts';
import { PromptLookup } from '../speculation/prompt-lookup.ts';
import { PrefillChunker } from './prefill-chunker.ts';
import { pipelineDepth } from '../execution/runner.ts';
import { zeroCounts, type SchedulerCounts } from './scheduler-counts.ts';
import type { Sequence } from './sequence.ts';
import { type InFlightStep, isConstrained, isStale, type BatchEntry } from './batch-entry.ts';
import { samplingFlagsOf, type StepInput } from '../execution/step.ts';
import { StepComposer } from './step-composer.ts';
import { StepResults } from '../execution/step-results.ts';
import type { StepRunner } from '../execution/step-runner.ts';
import { type ConstraintLimits, MaskWaitList } from './mask-wait-list.ts';
import { EngineError, type TokenLogprob } from '../types.ts';

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
  readonly #allocator: SlotAllocator;
  readonly #composer: StepComposer;
  readonly #drafting: DraftPolicy;
  readonly #draftRounds: DraftRounds | undefined;
  readonly #counts: SchedulerCounts;
  readonly #inFlight: InFlightStep[] = [];
  /** Each step is written to the GPU when it is submitted, so one input object serves all steps. */
  readonly #step: StepInput;
  readonly #now: () => number;
  /** End of the last step; undefined before the first one. */
  #lastEndAt: number | undefined;
  readonly #prefillChunker = new PrefillChunker();
  readonly #backpressure: ReaderBackpressure;
  readonly #maskWaitList: MaskWaitList;
  #arrivals = 0;
  #loop: Promise<void> | undefined;
  #stopped = false;
  readonly #idleWaiters: (() => void)[] = [];
  readonly #exclusiveQueue = new ExclusiveQueue();
  readonly #onFailure: (reason: string) => void;

  constructor(
    runner: StepRunner,
    now: () => number,
    options: {
      speculation?: SpeculationMode;
      /** Runner of the draft model. */
      draft?: DraftRunner | undefined;
      counts?: SchedulerCounts;
      reader?: Partial<ReaderLimits>;
      constraint?: Partial<ConstraintLimits>;
      /** Weights of clients, see `ClientShares`. */
      clientWeights?: ReadonlyMap<string, number> | undefined;
      /** Called when a step failed; this scheduler cannot run further steps. */
      onFailure?: (reason: string) => void;
    } = {},
  ) {
    this.#runner = runner;
    this.#now = now;
    this.#drafting = new DraftPolicy(options.speculation ?? 'auto');
    this.#counts = options.counts ?? zeroCounts();
    const allocator = new SlotAllocator(runner, () => (this.#counts.preemptions += 1), options.clientWeights);
    this.#allocator = allocator;
    this.#composer = new StepComposer(runner, {
      allocator,
      drafting: this.#drafting,
      prefillChunker: this.#prefillChunker,
    });
    this.#step = runner.newStep();
    const { memory, graph } = runner;
    const target = {
      capacity: memory.capacity,
      vocabulary: graph.shape.vocabulary,
      prefillChunker: this.#prefillChunker,
      now,
    };
    if (options.draft)
      this.#draftRounds = new DraftRounds(options.draft, { ...target, drafting: this.#drafting });
    this.#onFailure = options.onFailure ?? (() => {});
    this.#backpressure = new ReaderBackpressure(options.reader ?? {}, {
      onResume: (sequence) => this.#requeue(sequence),
      onTimeout: (sequence, reason) => this.cancel(sequence, reason),
    });
    this.#maskWaitList = new MaskWaitList(options.constraint ?? {}, now);
  }

  get running(): number {
    return this.#allocator.running.length;
  }

  /** Sequences that wait for a slot, or for their constraint's mask. */
  get waiting(): number {
    return this.#allocator.waiting.size + this.#maskWaitList.size;
  }

  get stalledReaders(): number {
    return this.#backpressure.size;
  }

  get pages(): { total: number; free: number; cached: number } {
    return this.#allocator.pages;
  }

  forgetPrefixes(): void {
    this.#allocator.forgetPrefixes();
    this.#draftRounds?.forgetPrefixes();
  }

  add(sequence: Sequence): void {
    const { penalties } = sampleFlags;
    const { sampling, constraint, maxTokens } = sequence.request;
    // Penalties and constraints depend on the previous token, which a draft row does not account for; and a rejected
    // draft cannot be removed from a layer's state.
    const hasStates = this.#runner.memory.capacity.retainedStates !== undefined;
    const allowsDrafts =
      maxTokens > 0 && (samplingFlagsOf(sampling) & penalties) === 0 && !constraint && !hasStates;
    if (this.#drafting.mode !== 'off' && allowsDrafts) {
      const lookup = new PromptLookup(sequence.tokens, this.#drafting.acceptance);
      sequence.useDrafters(lookup, this.#draftRounds?.drafterFor(sequence));
    }
    sequence.arrive(this.#arrivals++);
    this.#allocator.enqueue(sequence);
    this.#start();
  }

  /**
   * Gives a place in the full queue to a client's request: refuses the newest waiting one of the client that has the
   * most.
   * @returns whether there is a place now
   */
  yieldPlace(client: string): boolean {
    const last = this.#allocator.waiting.lastOfLongestLine(client);
    if (!last) return false;
    const message = 'the queue is full, and other clients have fewer requests in it; try again later';
    this.cancel(last, new EngineError('queue_full', message));
    return true;
  }

  /** Ends a sequence in any phase. Its slot and pages are free at once, because the GPU executes steps in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    this.#backpressure.remove(sequence);
    this.#maskWaitList.remove(sequence);
    this.#allocator.remove(sequence);
    this.#start();
  }

  /**
   * Runs `work` exclusively, when no sequence runs or waits. New sequences wait until it is done; sequences that wait
   * for their reader wait as well.
   * @param signal removes waiting work and rejects with the signal's reason; running work must observe the signal
   * itself
   */
  runExclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const done = this.#exclusiveQueue.add(work, signal);
    this.#start();
    return done;
  }

  /**
   * To be called by exclusive work between two of its parts: runs the sequences that wait, until none runs or waits.
   * @returns whether there were any; then they have written to any pages
   */
  async letOthersRun(): Promise<boolean> {
    if (this.#stopped || this.#allocator.waiting.size === 0) return false;
    // The work has written to pages that hold prefixes.
    this.forgetPrefixes();
    try {
      await this.#runSteps();
    } catch (error) {
      this.#fail(error);
      throw error;
    }
    return true;
  }

  /** Resolves when no step is in flight. */
  async whenIdle(): Promise<void> {
    if (!this.#loop) return;
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  /** Fails all sequences and forms no further step. */
  stop(reason: unknown): void {
    this.#stopped = true;
    const all = [...this.#allocator.clear(), ...this.#backpressure.clear(), ...this.#maskWaitList.clear()];
    for (const sequence of all) sequence.fail(reason);
    this.#exclusiveQueue.cancelAll(reason);
  }

  #start(): void {
    if (this.#loop || this.#stopped) return;
    const isIdle = this.#allocator.waiting.size === 0 && this.#allocator.running.length === 0;
    const task = isIdle ? this.#exclusiveQueue.takeNext() : undefined;
    this.#loop = (task?.run() ?? this.#runSteps())
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#loop = undefined;
        // Work may have arrived between the last check and the end of the loop.
        const more = this.#allocator.waiting.size > 0 || this.#exclusiveQueue.size > 0;
        if (more && !this.#stopped) this.#start();
        else this.#idleWaiters.splice(0).forEach((resolve) => resolve());
      });
  }

  #fail(error: unknown): void {
    const why = errorMessage(error);
    this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
    this.#onFailure(why);
  }

  async #runSteps(): Promise<void> {
    this.#lastEndAt = undefined;
    while (!this.#stopped) {
      this.#fillPipeline();
      const oldest = this.#inFlight[0];
      if (!oldest) {
        if (!this.#draftRounds?.isDue) return;
        await this.#draftRounds.run(this.#allocator.running);
        this.#lastEndAt = this.#now();
        continue;
      }
      if (!oldest.results) {
        await this.#startSampling(oldest);
        continue;
      }
      let results: StepResults;
      try {
        results = new StepResults(await oldest.results, oldest.samples);
      } catch (error) {
        if (!isUnreadableModel(error)) throw error;
        this.#failRunning(error);
        continue;
      } finally {
        this.#inFlight.shift();
      }
      const ms = this.#recordStepTime(oldest);
      const { accepted } = this.#counts.byModel;
      this.#deliver(oldest, results);
      this.#draftRounds?.recordStep(oldest, ms, this.#counts.byModel.accepted - accepted);
    }
    // Stopped: the device must not be destroyed while it is computing.
    const pendingResults = this.#inFlight.splice(0).map((step) => step.results ?? this.#sampleStep(step));
    await Promise.allSettled(pendingResults);
  }

  /** Submits steps until the pipeline is full. */
  #fillPipeline(): void {
    // A step blocks the next one while it verifies drafts, because the number of accepted tokens is unknown before
    // the readback; while its sampling is not submitted; and in models that need token ids on the CPU.
    const { needsTokenIds: needsIds = false } = this.#runner;
    const blocksNext = ({ drafts, results }: InFlightStep) => needsIds || drafts > 0 || !results;
    while (this.#inFlight.length < pipelineDepth && !this.#inFlight.some(blocksNext)) {
      this.#allocator.admit(this.#now());
      if (this.#draftRounds?.planRound(this.#allocator.running)) return;
      const step = this.#submit();
      if (!step) return;
      // It is awaited later; this handler prevents an unhandled rejection until then.
      step.results?.catch(() => undefined);
      this.#inFlight.push(step);
    }
  }

  /** Submits the sampling of a step, once everything it depends on was read back. */
  async #startSampling(step: InFlightStep): Promise<void> {
    await Promise.all(step.entries.map((entry) => this.#applyMask(entry)));
    if (this.#stopped) return;
    step.results = this.#sampleStep(step);
    step.results.catch(() => undefined);
  }

  /** Runs the sampling part of a step whose forward pass is submitted. */
  async #sampleStep({ forwardSubmitted }: InFlightStep): Promise<Uint32Array> {
    if (forwardSubmitted) await forwardSubmitted;
    return await this.#runner.sample(this.#step);
  }

  /** Fails the running sequences of a step that was not executed. Waiting sequences are not affected. */
  #failRunning(reason: unknown): void {
    // `cancel` removes sequences from the list that is iterated.
    const all = Array.from(this.#allocator.running);
    for (const sequence of all) this.cancel(sequence, reason);
    this.forgetPrefixes();
  }

  /**
   * Sets the mask of an entry. A failure ends only this sequence, and a slow constraint delays only this sequence.
   */
  async #applyMask(entry: BatchEntry): Promise<void> {
    if (!isConstrained(entry) || isStale(entry)) return;
    const { sequence } = entry;
    try {
      const isSet = await this.#maskWaitList.finishesInTime(sequence, uploadMask(this.#runner, entry));
      if (!isSet && !isStale(entry)) void this.#awaitMask(sequence);
    } catch (error) {
      this.cancel(sequence, error);
    }
  }

  /** Forms a step and submits the part that does not depend on results still to be read back. */
  #submit(): InFlightStep | undefined {
    const step = this.#step;
    const finishedRound = this.#draftRounds?.takeFinished();
    const formedStep = this.#composer.compose(step, finishedRound?.draftsPerSequence);
    if (!formedStep) return undefined;
    this.#allocator.submittedSteps += 1;
    const { entries } = formedStep;
    const hasConstraints = entries.some(isConstrained);
    const hasExtraWork = hasConstraints || entries.some(({ scores }) => scores.count > 0);
    const { samples } = step.dims;
    const isPipelined = this.#inFlight.length > 0;
    const submittedAt = this.#now();
    const forwardSubmitted = (hasConstraints && this.#runner.forward(step)) || undefined;
    // Awaited before the sampling; this handler prevents an unhandled rejection until then.
    forwardSubmitted?.catch(() => undefined);
    const results = hasConstraints ? undefined : this.#runner.submit(step);
    const draftRoundMs = finishedRound?.ms ?? 0;
    return {
      ...formedStep,
      samples,
      hasExtraWork,
      draftRoundMs,
      isPipelined,
      submittedAt,
      forwardSubmitted,
      results,
    };
  }

  /** Preempts a sequence until its reader has caught up. */
  #pauseForReader(sequence: Sequence): void {
    this.#allocator.preempt(sequence);
    sequence.wait('awaiting_reader');
    this.#backpressure.add(sequence);
  }

  /** Preempts a sequence until its constraint has answered. */
  async #awaitMask(sequence: Sequence): Promise<void> {
    this.#allocator.preempt(sequence);
    sequence.wait('awaiting_mask');
    if (await this.#maskWaitList.wait(sequence)) this.#requeue(sequence);
  }

  #requeue(sequence: Sequence): void {
    this.#allocator.enqueue(sequence);
    this.#start();
  }

  /** Records the time of a step. @returns its duration in ms */
  #recordStepTime(step: InFlightStep): number {
    const { prefillTokens, rows, drafts, submittedAt, isPipelined, hasExtraWork } = step;
    const end = this.#now();
    const ms = end - (this.#lastEndAt ?? submittedAt);
    this.#lastEndAt = end;
    if (hasExtraWork) return ms;
    if (prefillTokens === 0) {
      if (drafts > 0) this.#drafting.recordStepTime('verify', rows, ms);
      else if (isPipelined || this.#runner.needsTokenIds) this.#drafting.recordStepTime('plain', rows, ms);
    }
    this.#prefillChunker.recordStepTime(prefillTokens, ms);
    return ms;
  }

  #deliver(step: InFlightStep, results: StepResults): void {
    const now = this.#now();
    for (const entry of step.entries) {
      if (isStale(entry)) continue;
      const { sequence, firstSample, drafts, isFromDraftModel, scores, evaluatedTokens } = entry;
      const { hiddenStateSample } = entry;
      if (evaluatedTokens !== undefined) sequence.reportPrompt(evaluatedTokens, now);
      for (let n = 0; n < scores.count; n++) {
        const id = sequence.request.prompt[sequence.promptLogprobs?.length ?? 0] as number;
        sequence.acceptPromptLogprob(results.logprob(scores.first + n, id));
      }
      if (hiddenStateSample !== undefined)
        sequence.hiddenState = results.hiddenState(hiddenStateSample, this.#runner.graph.shape.width);
      if (entry.endsAfterPrompt) {
        sequence.finishAfterPrompt(now);
        this.#allocator.release(sequence);
      }
      if (firstSample !== undefined)
        this.#deliverTokens(sequence, { firstSample, drafts, isFromDraftModel }, results, now);
    }
  }

  #deliverTokens(
    sequence: Sequence,
    {
      firstSample,
      drafts,
      isFromDraftModel,
    }: { firstSample: number; drafts: readonly number[]; isFromDraftModel: boolean },
    results: StepResults,
    now: number,
  ): void {
    const counts = isFromDraftModel ? [this.#counts, this.#counts.byModel] : [this.#counts];
    for (const one of counts) one.drafted += drafts.length;
    for (let n = 0; ; n++) {
      const id = results.token(firstSample + n);
      if (n > 0) {
        // The previous draft equals the token sampled after it, so this token follows a correct prefix.
        sequence.scheduleTokens(1);
        sequence.scheduleSample();
        for (const one of counts) one.accepted += 1;
      }
      if (id === noToken) return this.#handleInvalidLogits(sequence);
      const isReported = sequence.request.logprobs !== undefined;
      this.#acceptToken(sequence, id, now, isReported ? results.logprob(firstSample + n, id) : undefined);
      if (this.#hasEnded(sequence) || id !== drafts[n]) break;
    }
    if (!this.#hasEnded(sequence) && this.#backpressure.isReaderBehind(sequence))
      this.#pauseForReader(sequence);
  }

  /**
   * Handles logits that are NaN. The cause may be another sequence: if one of its tokens produced NaN, cached pages
   * before that token may contain NaN as well, and this sequence may have reused them. So it is computed again
   * without the prefix cache.
   */
  #handleInvalidLogits(sequence: Sequence): void {
    if (sequence.reusedTokens > 0) {
      sequence.refusePrefix();
      this.#allocator.preempt(sequence);
      this.forgetPrefixes();
      this.#requeue(sequence);
      return;
    }
    const { boundKernels = [] } = this.#runner;
    const cause =
      boundKernels.length > 0
        ? `a bound lab kernel (${boundKernels.join(', ')}) computed them; without it, the model file would be damaged, or its values overflow`
        : 'the model file is damaged, or its values overflow';
    this.cancel(
      sequence,
      new EngineError('broken_model', `no token can be sampled, because the logits are not finite: ${cause}`),
    );
    this.forgetPrefixes();
  }

  #acceptToken(sequence: Sequence, id: number, now: number, logprob: TokenLogprob | undefined): void {
    sequence.acceptToken(id, now, logprob);
    if (this.#hasEnded(sequence)) {
      this.#allocator.release(sequence);
      return;
    }
    const lookupHit = sequence.lookupDrafter?.observe();
    if (lookupHit !== undefined) this.#drafting.observe(lookupHit);
    const modelHit = sequence.modelDrafter?.observe();
    if (modelHit !== undefined) this.#draftRounds?.observe(modelHit);
  }

  /** A method, because `acceptToken` changes the phase. */
  #hasEnded(sequence: Sequence): boolean {
    return sequence.phase === 'done';
  }
}

/** True when reading the model file failed, not the device. */
const isUnreadableModel = (error: unknown): boolean =>
  error instanceof EngineError && error.code === 'model_unreadable';
