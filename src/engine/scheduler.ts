import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { noToken, sampleFlags } from '../../kernels/sample.ts';
import { DraftPolicy, type Candidate, type Speculation } from './draft-policy.ts';
import { KvCache, pagesFor } from './kv-cache.ts';
import { maxDrafts, PromptLookup } from './prompt-lookup.ts';
import { type Capacity, splitTokensOf } from './memory.ts';
import { pipelineDepth } from './runner.ts';
import type { Sequence } from './sequence.ts';
import { feedback, flagsOf, stepSamples, type StepInput } from './step.ts';
import { EngineError } from './types.ts';

/** What the scheduler needs of a `Runner`. Everything it is given takes effect in the order of the calls. */
export interface StepRunner {
  readonly memory: { readonly capacity: Capacity };
  readonly graph: { readonly shape: { readonly vocabulary: number } };
  newStep(): StepInput;
  submit(step: StepInput): Promise<Uint32Array>;
  setPages(slot: number, pages: readonly number[], first?: number): void;
  setBias(slot: number, bias: Float32Array<ArrayBuffer>): void;
  setSeen(slot: number, seen: Uint32Array<ArrayBuffer>): void;
}

/** Totals that outlive a scheduler: a lost device gets a new one. */
export interface SchedulerCounts {
  /** Sequences that gave their place back for lack of pages. */
  preemptions: number;
  drafted: number;
  accepted: number;
}

/** One sequence's samples of a step: the next token, and one after each draft. */
interface Share {
  readonly sequence: Sequence;
  /** Its count when the step was formed: results of a place it has lost since are dropped. */
  readonly preemptions: number;
  readonly drafts: readonly number[];
}

/** A submitted step: whose tokens its results are, in order. */
interface InFlight {
  readonly shares: readonly Share[];
  readonly rows: number;
  readonly drafts: number;
  readonly prefillTokens: number;
  /** Another step was running when it was submitted. */
  readonly pipelined: boolean;
  readonly submitted: number;
  readonly results: Promise<Uint32Array>;
}

/** Work that wants the device for itself. */
interface Interlude {
  run(): Promise<void>;
  refuse(reason: unknown): void;
}

/** Longest that a step with prompt tokens should take, in ms: while others wait for their next token, and alone. */
const sharedStepMs = 250;
const loneStepMs = 1000;
const firstChunk = 32;
const leastChunk = 8;

const noDrafts: readonly number[] = [];
const noPlan = { each: 0, rows: 0 };

/**
 * Forms steps from what waits and runs: a token for every decoding sequence, and prompt tokens of the oldest
 * prefilling ones as far as the budget goes. The next step is encoded while the last one runs; its tokens come
 * from the GPU itself, so nothing waits for a readback. A sequence that ended in the meantime drops its share.
 *
 * Pages are taken as sequences grow. When there are none left, the youngest running sequence gives its place back and
 * waits at the head of the queue. Running and waiting ones are each in order of arrival, and all that run came before
 * all that wait.
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
  /** Of a prompt token, as measured; undefined until a step had enough of them. */
  #prefillTokenMs: number | undefined;
  #loop: Promise<void> | undefined;
  #stopped = false;
  readonly #idle: (() => void)[] = [];
  readonly #interludes: Interlude[] = [];
  readonly #onFailure: (reason: string) => void;

  constructor(
    runner: StepRunner,
    now: () => number,
    options: {
      speculation?: Speculation;
      counts?: SchedulerCounts;
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
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
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
    // Each penalty depends on the tokens before, which a draft row would not have counted.
    if (this.#drafting.mode !== 'off' && (flagsOf(sequence.request.sampling) & penalties) === 0) {
      sequence.lookup = new PromptLookup(sequence.tokens, this.#drafting.acceptance);
    }
    this.#waiting.push(sequence);
    this.#start();
  }

  /** Ends a sequence wherever it is; its slot and pages are free at once, because the GPU works in order. */
  cancel(sequence: Sequence, reason: unknown): void {
    sequence.fail(reason);
    const at = this.#waiting.indexOf(sequence);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#release(sequence);
    this.#start();
  }

  /**
   * Runs `work` when nothing runs or waits; what comes meanwhile waits until it is done.
   * @param signal leaves the queue, with its reason; work that has begun looks at it by itself
   */
  interlude<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const leave = () => {
        const at = this.#interludes.indexOf(interlude);
        if (at < 0) return;
        this.#interludes.splice(at, 1);
        reject(signal?.reason);
      };
      const interlude: Interlude = {
        run: () => work().then(resolve, reject),
        refuse: reject,
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#interludes.push(interlude);
      this.#start();
    });
  }

  /** Resolves when no step is on its way. */
  async settled(): Promise<void> {
    if (!this.#loop) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Fails everything and forms no further step. */
  stop(reason: unknown): void {
    this.#stopped = true;
    for (const sequence of [...this.#waiting, ...this.#running]) sequence.fail(reason);
    this.#waiting.length = 0;
    this.#running.length = 0;
    for (const interlude of this.#interludes.splice(0)) interlude.refuse(reason);
  }

  #start(): void {
    if (this.#loop || this.#stopped) return;
    const isIdle = this.#waiting.length === 0 && this.#running.length === 0;
    const interlude = isIdle ? this.#interludes.shift() : undefined;
    this.#loop = (interlude?.run() ?? this.#run())
      .catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        this.stop(new EngineError('device_lost', `the GPU failed in the middle of a step: ${why}`));
        this.#onFailure(why);
      })
      .finally(() => {
        this.#loop = undefined;
        // Something may have come between the last look and the end of the loop.
        const more = this.#waiting.length > 0 || this.#interludes.length > 0;
        if (more && !this.#stopped) this.#start();
        else this.#idle.splice(0).forEach((resolve) => resolve());
      });
  }

  async #run(): Promise<void> {
    this.#lastEnd = undefined;
    while (!this.#stopped) {
      // How far a verification came is known only when it is read back.
      while (this.#inFlight.length < pipelineDepth && !this.#inFlight.some(({ drafts }) => drafts > 0)) {
        this.#admit();
        const step = this.#compose();
        if (!step) break;
        // It is awaited in its turn; until then a failure of it must not count as one that nobody handles.
        step.results.catch(() => undefined);
        this.#inFlight.push(step);
      }
      const oldest = this.#inFlight[0];
      if (!oldest) return;
      let results: Uint32Array;
      try {
        results = await oldest.results;
      } finally {
        this.#inFlight.shift();
      }
      this.#learn(oldest);
      this.#deliver(oldest, results);
    }
    // Stopped: the device may be destroyed only when it works on nothing.
    await Promise.allSettled(this.#inFlight.splice(0).map(({ results }) => results));
  }

  #admit(): void {
    for (;;) {
      const sequence = this.#waiting[0];
      const slot = this.#freeSlots.at(-1);
      // First come, first served: a smaller one behind it does not overtake.
      if (!sequence || slot === undefined || !this.#hasRoom(sequence)) return;
      this.#waiting.shift();
      this.#freeSlots.pop();
      this.#running.push(sequence);
      sequence.slot = slot;
      sequence.phase = 'prefill';
      if (sequence.started === 0) sequence.started = this.#now();
      this.#setSampling(sequence);
    }
  }

  /** Whether a text can be computed without somebody losing pages: alone it always can. */
  #hasRoom(sequence: Sequence): boolean {
    const { missing, idle } = this.#cache.demand(sequence.tokens);
    // Each running one needs the rest of its text's pages, and soon a page for what it answers.
    const promised = this.#running.reduce(
      (sum, { pages, tokens }) => sum + Math.max(1, pagesFor(tokens.length + 1) - pages.length),
      0,
    );
    return missing + promised <= this.#cache.available - idle;
  }

  #setSampling(sequence: Sequence): void {
    const { sampling, prompt } = sequence.request;
    const flags = flagsOf(sampling);
    const { vocabulary } = this.#runner.graph.shape;
    if (flags & sampleFlags.bias) {
      const bias = new Float32Array(vocabulary);
      for (const [id, amount] of sampling.logitBias) bias[id] = amount;
      this.#runner.setBias(sequence.slot, bias);
    }
    if (flags & sampleFlags.penalties) {
      const seen = new Uint32Array(vocabulary);
      for (const id of prompt) seen[id] = 0x80000000;
      for (const id of sequence.tokens.slice(prompt.length)) seen[id] = (seen[id] ?? 0) + 1;
      this.#runner.setSeen(sequence.slot, seen);
    }
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
    const pipelined = this.#inFlight.length > 0;
    const submitted = this.#now();
    const results = this.#runner.submit(step);
    return { shares, rows, drafts, prefillTokens, pipelined, submitted, results };
  }

  /** A token for every decoding sequence, and drafts where they pay. @returns the number of drafts */
  #addDecoding(step: StepInput, shares: Share[]): number {
    const { each, rows } = this.#planDrafts();
    let drafted = 0;
    // Oldest first; who has to give way is younger, so it has no share in this step yet.
    for (let index = 0; index < this.#running.length; index++) {
      const sequence = this.#running[index] as Sequence;
      if (!isDecoding(sequence)) continue;
      const ahead = sequence.drawn - sequence.answered;
      let drafts = noDrafts;
      const wanted = Math.min(each, rows - drafted, this.#draftRoom(sequence));
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
      this.#sample(step, sequence, row, 1);
      for (let n = 1; n <= drafts.length; n++) {
        step.sample(row + n, slot, sequence.scheduled + n, sequence.request.sampling);
      }
      shares.push({ sequence, preemptions: sequence.preemptions, drafts });
      drafted += drafts.length;
    }
    return drafted;
  }

  /**
   * Drafts that a sequence can take: none without a guess, none beyond the end of its answer, and none where decoding
   * splits the context: attention of several rows does not, and rounds differently.
   */
  #draftRoom({ lookup, drawn, answered, request, scheduled }: Sequence): number {
    if (!lookup?.guesses || drawn - answered > 1) return 0;
    const unsplit = splitTokensOf(this.#runner.memory.capacity) - 1 - scheduled;
    return Math.max(0, Math.min(maxDrafts, request.maxTokens - drawn - 1, unsplit));
  }

  /** Drafts a sequence for the step that is being formed, and rows for all drafts together. */
  #planDrafts(): { each: number; rows: number } {
    if (!this.#running.some((one) => isDecoding(one) && this.#draftRoom(one) > 0)) return noPlan;
    const candidates: Candidate[] = [];
    let promptTokens = 0;
    for (const sequence of this.#running) {
      const { phase, drawn, answered, lookup, tokens, scheduled } = sequence;
      if (isDecoding(sequence)) {
        const room = this.#draftRoom(sequence);
        candidates.push({ room, ahead: drawn - answered, acceptance: lookup?.acceptance ?? 0 });
      } else if (phase === 'prefill') {
        promptTokens += tokens.length - scheduled;
      }
    }
    const { slots, stepTokens } = this.#runner.memory.capacity;
    // Whose prompt ends in this step takes a sample too.
    const rows = Math.min(stepSamples(slots) - this.#running.length, stepTokens - candidates.length);
    const promptMs = Math.min(promptTokens, this.#chunk(true)) * (this.#prefillTokenMs ?? 0);
    return { each: this.#drafting.choose(candidates, rows, promptMs), rows };
  }

  /** Prompt tokens for one step: the oldest first, each as much as is left. */
  #addPrompts(step: StepInput, shares: Share[]): number {
    const { capacity } = this.#runner.memory;
    let left = Math.min(this.#chunk(shares.length > 0), capacity.stepTokens - step.dims.tokens);
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
    this.#adopt(step, sequence);
    const first = sequence.scheduled;
    const count = this.#fitPrompt(sequence, Math.min(left, tokens.length - first));
    if (count === 0) return 0;
    const row = step.prefillTokens(tokens, first, count, sequence.slot);
    this.#uploadPages(sequence);
    if (first + count === tokens.length) {
      sequence.phase = 'decode';
      this.#sample(step, sequence, row, count);
      shares.push({ sequence, preemptions: sequence.preemptions, drafts: noDrafts });
    } else {
      sequence.scheduled += count;
    }
    this.#cache.publish(sequence, tokens, sequence.scheduled, this.#submitted + 1);
    return count;
  }

  /** Skips what is cached of the text that comes next. */
  #adopt(step: StepInput, sequence: Sequence): void {
    const { scheduled, tokens } = sequence;
    const { at, copy } = this.#cache.adopt(sequence, tokens, scheduled, this.#submitted + 1);
    if (copy) step.copies.push(copy);
    sequence.scheduled = at;
    // What it computed itself before it was preempted was not saved to it.
    if (sequence.preemptions === 0) sequence.cachedTokens += at - scheduled;
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
    this.#release(sequence);
    sequence.phase = 'waiting';
    sequence.preemptions += 1;
    sequence.scheduled = 0;
    // Tokens still on their way are drawn again, and are the same then.
    sequence.drawn = sequence.answered;
    this.#waiting.unshift(sequence);
    this.#counts.preemptions += 1;
  }

  #uploadPages(sequence: Sequence): void {
    const { pages, slot, tabled } = sequence;
    if (pages.length === tabled) return;
    this.#runner.setPages(slot, pages, tabled);
    sequence.tabled = pages.length;
  }

  #sample(step: StepInput, sequence: Sequence, row: number, count: number): void {
    sequence.scheduled += count;
    sequence.drawn += 1;
    step.sample(row, sequence.slot, sequence.scheduled, sequence.request.sampling);
  }

  /** Prompt tokens for the next step, so that they do not stall running answers. */
  #chunk(shared: boolean): number {
    if (this.#prefillTokenMs === undefined) return firstChunk;
    const fit = (shared ? sharedStepMs : loneStepMs) / this.#prefillTokenMs;
    return Math.max(leastChunk, Math.floor(fit / leastChunk) * leastChunk);
  }

  #learn(step: InFlight): void {
    const { prefillTokens, rows, drafts, submitted, pipelined } = step;
    const end = this.#now();
    const ms = end - (this.#lastEnd ?? submitted);
    this.#lastEnd = end;
    if (prefillTokens === 0) {
      if (drafts > 0) this.#drafting.learn('verify', rows, ms);
      else if (pipelined) this.#drafting.learn('plain', rows, ms);
    }
    if (prefillTokens < leastChunk) return;
    const measured = ms / prefillTokens;
    this.#prefillTokenMs =
      this.#prefillTokenMs === undefined ? measured : (this.#prefillTokenMs + measured) / 2;
  }

  #deliver(step: InFlight, results: Uint32Array): void {
    const now = this.#now();
    let first = 0;
    for (const share of step.shares) {
      const at = first;
      first += 1 + share.drafts.length;
      const { sequence, drafts } = share;
      if (sequence.phase === 'done' || sequence.preemptions !== share.preemptions) continue;
      this.#counts.drafted += drafts.length;
      for (let n = 0; ; n++) {
        const id = results[at + n] as number;
        if (n > 0) {
          // The draft before it was what would have been drawn, so this token follows from the right text.
          sequence.scheduled += 1;
          sequence.drawn += 1;
          this.#counts.accepted += 1;
        }
        this.#accept(sequence, id, now);
        if (this.#hasEnded(sequence) || id !== drafts[n]) break;
      }
    }
  }

  #accept(sequence: Sequence, id: number, now: number): void {
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
    sequence.accept(id, now);
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

/** A further token of its answer is to be drawn. */
function isDecoding({ phase, drawn, request }: Sequence): boolean {
  return phase === 'decode' && drawn < request.maxTokens;
}
