import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { noToken, sampleFlags } from '../../kernels/sample.ts';
import { draftRoom, planDrafts } from './draft-plan.ts';
import { DraftPolicy, type Speculation } from './draft-policy.ts';
import { Interludes } from './interludes.ts';
import { KvCache, pagesFor } from './kv-cache.ts';
import { askConstraint, setMask } from './masks.ts';
import { Parking, type ReaderLimits } from './parking.ts';
import { PromptLookup } from './prompt-lookup.ts';
import { PromptPace } from './prompt-pace.ts';
import { scorableTokens, scorePrompt } from './prompt-scores.ts';
import { pipelineDepth } from './runner.ts';
import type { Sequence } from './sequence.ts';
import {
  type InFlight,
  isConstrained,
  isDecoding,
  isStale,
  noDrafts,
  noScores,
  type Share,
} from './share.ts';
import { feedback, flagsOf, stepSamples, type StepInput } from './step.ts';
import { StepResults } from './step-results.ts';
import { setSampling, type StepRunner } from './step-runner.ts';
import { EngineError, type TokenLogprob } from './types.ts';

/** Totals that outlive a scheduler: a lost device gets a new one. */
export interface SchedulerCounts {
  /** Sequences that gave their place back for lack of pages. */
  preemptions: number;
  drafted: number;
  accepted: number;
}

/**
 * Forms steps from what waits and runs: a token for every decoding sequence, and prompt tokens of the oldest
 * prefilling ones as far as the budget goes. The next step is encoded while the last one runs; its tokens come
 * from the GPU itself, so nothing waits for a readback. A sequence that ended in the meantime drops its share.
 *
 * What a constraint allows depends on the token before. A step with constrained sequences is submitted in two parts: its
 * forward pass at once, its sampling when the step before was read back and their constraints have answered.
 *
 * Pages are taken as sequences grow. When there are none left, the youngest running sequence gives its place back and
 * waits. One whose reader is slow gives it back too, and waits elsewhere until he has caught up. Running and waiting ones
 * are each in order of arrival.
 */
export class Scheduler {
  readonly #runner: StepRunner;
  readonly #cache: KvCache;
  readonly #drafting: DraftPolicy;
  readonly #counts: SchedulerCounts;
  readonly #freeSlots: number[];
  readonly #running: Sequence[] = [];
  readonly #waiting: Sequence[] = [];
  readonly #inFlight: InFlight[] = [];
  /** Written to the GPU when submitted, so one serves all steps. */
  readonly #step: StepInput;
  readonly #now: () => number;
  /** Steps submitted so far. */
  #submitted = 0;
  /** When the last step ended, while the loop runs. */
  #lastEnd: number | undefined;
  readonly #pace = new PromptPace();
  readonly #parking: Parking;
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
      /** A step failed: nothing more can run here. */
      onFailure?: (reason: string) => void;
    } = {},
  ) {
    const { capacity } = runner.memory;
    this.#runner = runner;
    this.#now = now;
    this.#cache = new KvCache(capacity.pages);
    this.#drafting = new DraftPolicy(options.speculation ?? 'auto');
    this.#counts = options.counts ?? { preemptions: 0, drafted: 0, accepted: 0 };
    this.#freeSlots = Array.from({ length: capacity.slots }, (_, slot) => capacity.slots - 1 - slot);
    this.#step = runner.newStep();
    this.#onFailure = options.onFailure ?? (() => {});
    this.#parking = new Parking(options.reader ?? {}, {
      leave: (sequence) => {
        sequence.phase = 'waiting';
        insertByArrival(this.#waiting, sequence);
        this.#start();
      },
      drop: (sequence, reason) => this.cancel(sequence, reason),
    });
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get parked(): number {
    return this.#parking.size;
  }

  get pages(): { total: number; free: number; cached: number } {
    const { total, free, cached } = this.#cache.pool;
    return { total, free, cached };
  }

  forgetPrefixes(): void {
    this.#cache.clear();
  }

  add(sequence: Sequence): void {
    const { penalties } = sampleFlags;
    const { sampling, constraint } = sequence.request;
    // Each penalty depends on the tokens before, which a draft row would not have counted; so does a constraint.
    if (this.#drafting.mode !== 'off' && (flagsOf(sampling) & penalties) === 0 && !constraint) {
      sequence.lookup = new PromptLookup(sequence.tokens, this.#drafting.acceptance);
    }
    sequence.order = this.#arrivals++;
    this.#waiting.push(sequence);
    this.#start();
  }

  /** Ends a sequence wherever it is; its slot and pages are free at once, because the GPU works in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    const at = this.#waiting.indexOf(sequence);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#parking.remove(sequence);
    this.#release(sequence);
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
    const all = [...this.#waiting, ...this.#running, ...this.#parking.clear()];
    for (const sequence of all) sequence.fail(reason);
    this.#waiting.length = 0;
    this.#running.length = 0;
    this.#interludes.refuse(reason);
  }

  #start(): void {
    if (this.#loop || this.#stopped) return;
    const isIdle = this.#waiting.length === 0 && this.#running.length === 0;
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
        const more = this.#waiting.length > 0 || this.#interludes.size > 0;
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
      this.#admit();
      const step = this.#compose();
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

  /** Whatever goes wrong ends this sequence alone. */
  async #setMask(share: Share): Promise<void> {
    try {
      await setMask(this.#runner, share);
    } catch (error) {
      this.cancel(share.sequence, error);
    }
  }

  #admit(): void {
    for (;;) {
      const sequence = this.#waiting[0];
      const slot = this.#freeSlots.at(-1);
      // First come, first served: a smaller one behind it does not overtake.
      if (!sequence || slot === undefined || !this.#hasRoom(sequence)) return;
      this.#waiting.shift();
      this.#freeSlots.pop();
      insertByArrival(this.#running, sequence);
      sequence.slot = slot;
      sequence.phase = 'prefill';
      if (sequence.started === 0) sequence.started = this.#now();
      setSampling(this.#runner, sequence);
    }
  }

  /** Whether a text can be computed without somebody losing pages: alone it always can. */
  #hasRoom(sequence: Sequence): boolean {
    const { tokens: text, request, isScoring } = sequence;
    // Behind a prompt that is only scored nothing follows.
    const count = Math.min(text.length + 1, request.prompt.length + request.maxTokens);
    const { missing, idle } = isScoring
      ? { missing: pagesFor(count), idle: 0 }
      : this.#cache.demand(text, count);
    // Each running one needs the rest of its text's pages, and soon a page for what it answers.
    const promised = this.#running.reduce(
      (sum, { pages, tokens }) => sum + Math.max(1, pagesFor(tokens.length + 1) - pages.length),
      0,
    );
    return missing + promised <= this.#cache.available - idle;
  }

  #compose(): InFlight | undefined {
    const step = this.#step;
    step.clear();
    const shares: Share[] = [];
    const drafts = this.#addDecoding(step, shares);
    const rows = step.dims.tokens;
    const prefillTokens = this.#addPrompts(step, shares);
    if (step.dims.tokens === 0) return undefined;
    this.#submitted += 1;
    const waits = shares.some(isConstrained);
    const isUnusual = waits || shares.some(({ scores }) => scores.count > 0);
    const { samples } = step.dims;
    const pipelined = this.#inFlight.length > 0;
    const submitted = this.#now();
    if (waits) this.#runner.forward(step);
    const results = waits ? undefined : this.#runner.submit(step);
    return { shares, rows, samples, drafts, prefillTokens, isUnusual, pipelined, submitted, results };
  }

  /** A token for every decoding sequence, and drafts where they pay. @returns the number of drafts */
  #addDecoding(step: StepInput, shares: Share[]): number {
    const { capacity } = this.#runner.memory;
    const plan = { capacity, drafting: this.#drafting, pace: this.#pace };
    const { each, rows } = planDrafts(this.#running, plan);
    let drafted = 0;
    // Oldest first; who has to give way is younger, so it has no share in this step yet.
    for (let index = 0; index < this.#running.length; index++) {
      const sequence = this.#running[index] as Sequence;
      if (!isDecoding(sequence)) continue;
      const ahead = sequence.drawn - sequence.answered;
      let drafts = noDrafts;
      const wanted = Math.min(each, rows - drafted, draftRoom(sequence, capacity));
      // Drafts are not worth anybody's place.
      if (wanted > 0 && this.#cache.grow(sequence, sequence.scheduled + 1 + wanted)) {
        drafts = sequence.lookup?.propose(ahead, wanted) ?? noDrafts;
      }
      if (!this.#makeRoom(sequence, sequence.scheduled + 1)) continue;
      this.#uploadPages(sequence);
      const id = ahead === 0 ? (sequence.tokens.at(-1) as number) : feedback;
      const { scheduled, slot } = sequence;
      const row =
        drafts.length === 0
          ? step.decodeToken(id, scheduled, slot)
          : step.verifyTokens(id, drafts, scheduled, slot);
      const { sampling } = sequence.request;
      const first = this.#sample(step, sequence, row, 1);
      for (let n = 1; n <= drafts.length; n++) {
        step.sample(row + n, slot, sequence.scheduled + n, sampling, sequence.wants);
      }
      shares.push(this.#shareOf(sequence, { first, drafts }));
      drafted += drafts.length;
    }
    return drafted;
  }

  /** Prompt tokens for one step: the oldest first, each as much as is left. */
  #addPrompts(step: StepInput, shares: Share[]): number {
    const { capacity } = this.#runner.memory;
    let left = Math.min(this.#pace.chunk(shares.length > 0), capacity.stepTokens - step.dims.tokens);
    let added = 0;
    for (let index = 0; index < this.#running.length && left > 0; index++) {
      const sequence = this.#running[index] as Sequence;
      if (sequence.phase !== 'prefill') continue;
      const count = this.#addPrompt(step, sequence, left, shares);
      left -= count;
      added += count;
    }
    return added;
  }

  /** At most `left` tokens of a text that is known already. @returns how many */
  #addPrompt(step: StepInput, sequence: Sequence, left: number, shares: Share[]): number {
    const { tokens } = sequence;
    // What is scored has to be computed.
    if (!sequence.isScoring) this.#adopt(step, sequence);
    const first = sequence.scheduled;
    const wanted = Math.min(left, tokens.length - first, scorableTokens(sequence, this.#freeSamples(step)));
    const count = this.#fitPrompt(sequence, wanted);
    if (count === 0) return 0;
    const row = step.prefillTokens(tokens, first, count, sequence.slot);
    this.#uploadPages(sequence);
    const scores = scorePrompt(step, sequence, row, count);
    const isWhole = first + count === tokens.length;
    const draws = isWhole && sequence.request.maxTokens > 0;
    if (isWhole) sequence.phase = 'decode';
    const sample = draws ? this.#sample(step, sequence, row, count) : undefined;
    if (!draws) sequence.scheduled += count;
    if (isWhole || scores.count > 0)
      shares.push(this.#shareOf(sequence, { first: sample, scores, isLast: isWhole && !draws }));
    this.#cache.publish(sequence, tokens, sequence.scheduled, this.#submitted + 1);
    return count;
  }

  /** Samples that nobody's next token needs. */
  #freeSamples({ dims }: StepInput): number {
    const prompts = this.#running.reduce((sum, { phase }) => sum + Number(phase === 'prefill'), 0);
    return stepSamples(this.#runner.memory.capacity.slots) - dims.samples - prompts;
  }

  /** Skips what is cached of the text that comes next. */
  #adopt(step: StepInput, sequence: Sequence): void {
    const { scheduled, tokens } = sequence;
    const { at, copy } = this.#cache.adopt(sequence, tokens, scheduled, this.#submitted + 1);
    if (copy) step.copies.push(copy);
    sequence.scheduled = at;
    // What it computed itself before it gave its place back was not saved to it.
    if (sequence.departures === 0) sequence.cachedTokens += at - scheduled;
  }

  /**
   * Makes the table hold `count` further tokens, or as many as there are pages for: with none, those that decode go on
   * and give pages back. Younger prompts have none to give, since older ones come first.
   * @returns how many
   */
  #fitPrompt(sequence: Sequence, count: number): number {
    const room = (sequence.pages.length + this.#cache.available) * pageTokens - sequence.scheduled;
    const fit = Math.min(count, room);
    this.#cache.grow(sequence, sequence.scheduled + fit);
    return fit;
  }

  /** Makes the table hold so many tokens, if need be at the cost of younger sequences; false: not in this step. */
  #makeRoom(sequence: Sequence, tokens: number): boolean {
    while (!this.#cache.grow(sequence, tokens)) {
      // Whoever waits for its last token gives its pages back by itself.
      if (this.#running.some((one) => one.phase === 'decode' && !isDecoding(one))) return false;
      const youngest = this.#running.at(-1) as Sequence;
      this.#preempt(youngest);
      if (youngest === sequence) return false;
    }
    return true;
  }

  /** The sequence gives everything back and waits, before all that arrived after it. */
  #preempt(sequence: Sequence): void {
    this.#leave(sequence);
    sequence.phase = 'waiting';
    insertByArrival(this.#waiting, sequence);
    this.#counts.preemptions += 1;
  }

  /** The sequence gives everything back and waits for its reader. */
  #park(sequence: Sequence): void {
    this.#leave(sequence);
    sequence.phase = 'parked';
    this.#parking.add(sequence);
  }

  /** Gives everything back; it will compute its text again. */
  #leave(sequence: Sequence): void {
    this.#release(sequence);
    sequence.departures += 1;
    sequence.scheduled = 0;
    // Tokens still on their way are drawn again, and are the same then.
    sequence.drawn = sequence.answered;
    sequence.scoring = sequence.scores?.length ?? 1;
  }

  #uploadPages(sequence: Sequence): void {
    const { pages, slot, tabled } = sequence;
    if (pages.length === tabled) return;
    this.#runner.setPages(slot, pages, tabled);
    sequence.tabled = pages.length;
  }

  /** @returns the index among the step's samples */
  #sample(step: StepInput, sequence: Sequence, row: number, count: number): number {
    sequence.scheduled += count;
    sequence.drawn += 1;
    const { request, slot, scheduled, wants } = sequence;
    return step.sample(row, slot, scheduled, request.sampling, wants);
  }

  #shareOf(
    sequence: Sequence,
    { first, drafts = noDrafts, scores = noScores, isLast = false }: Partial<Share>,
  ): Share {
    const { departures, drawn, answered, request } = sequence;
    // All tokens before are known: the constraint may answer while the forward pass runs.
    const isKnown = first !== undefined && request.constraint !== undefined && drawn === answered + 1;
    const mask = isKnown ? askConstraint(sequence, this.#runner.graph.shape.vocabulary) : undefined;
    mask?.catch(() => undefined); // awaited when the sampling is submitted
    return { sequence, departures, first, drafts, scores, isLast, mask };
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
        this.#release(sequence);
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
      this.#release(sequence);
      return;
    }
    const hit = sequence.lookup?.observe();
    if (hit !== undefined) this.#drafting.observe(hit);
  }

  /** A method, because `accept` changes the phase. */
  #hasEnded(sequence: Sequence): boolean {
    return sequence.phase === 'done';
  }

  /** Takes slot and pages back; what is written stays in the prefix cache. */
  #release(sequence: Sequence): void {
    const at = this.#running.indexOf(sequence);
    if (at < 0) return;
    this.#running.splice(at, 1);
    this.#freeSlots.push(sequence.slot);
    // The token drawn last is not written yet; of one that is written, the id may be on its way still.
    const written = Math.min(sequence.scheduled, sequence.tokens.length);
    this.#cache.release(sequence, sequence.tokens, written, this.#submitted);
    sequence.tabled = 0;
  }
}

function insertByArrival(list: Sequence[], sequence: Sequence): void {
  list.splice(list.findLastIndex(({ order }) => order < sequence.order) + 1, 0, sequence);
}
