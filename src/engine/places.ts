import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { type Adopted, KvCache, pagesFor } from './kv-cache.ts';
import type { StateCopy } from './kept-states.ts';
import type { Sequence } from './sequence.ts';
import { isDecoding } from './share.ts';
import { setSampling, type StepRunner } from './step-runner.ts';

/**
 * Who has a slot and pages, and who waits for them, each in order of arrival. Pages are taken as sequences grow; when
 * there are none left, the youngest running sequence gives its place back.
 */
export class Places {
  readonly running: Sequence[] = [];
  readonly waiting: Sequence[] = [];
  /** Steps submitted so far. */
  submitted = 0;
  readonly #runner: StepRunner;
  readonly #cache: KvCache;
  readonly #freeSlots: number[];
  readonly #onPreempt: () => void;

  /** @param onPreempt told whenever a sequence gives its place back for lack of pages */
  constructor(runner: StepRunner, onPreempt: () => void) {
    const { pages, slots, keptStates } = runner.memory.capacity;
    this.#runner = runner;
    this.#cache = new KvCache(pages, keptStates);
    this.#freeSlots = Array.from({ length: slots }, (_, slot) => slots - 1 - slot);
    this.#onPreempt = onPreempt;
  }

  get pages(): { total: number; free: number; cached: number } {
    const { total, free, cached } = this.#cache.pool;
    return { total, free, cached };
  }

  forgetPrefixes(): void {
    this.#cache.clear();
  }

  /** The sequence waits for a place, behind all that arrived before it. */
  queue(sequence: Sequence): void {
    sequence.phase = 'waiting';
    insertByArrival(this.waiting, sequence);
  }

  /** Gives places to those that wait, as far as there are any. */
  admit(now: number): void {
    for (;;) {
      const sequence = this.waiting[0];
      const slot = this.#freeSlots.at(-1);
      // First come, first served: a smaller one behind it does not overtake.
      if (!sequence || slot === undefined || !this.#hasRoom(sequence)) return;
      this.waiting.shift();
      this.#freeSlots.pop();
      insertByArrival(this.running, sequence);
      sequence.slot = slot;
      sequence.phase = 'prefill';
      if (sequence.started === 0) sequence.started = now;
      setSampling(this.#runner, sequence);
    }
  }

  /** Whether a text can be computed without somebody losing pages: alone it always can. */
  #hasRoom(sequence: Sequence): boolean {
    const { tokens: text, request, isScoring, adopts } = sequence;
    // Behind a prompt that is only scored nothing follows.
    const count = Math.min(text.length + 1, request.prompt.length + request.maxTokens);
    const { missing, idle } =
      isScoring || !adopts ? { missing: pagesFor(count), idle: 0 } : this.#cache.demand(text, count);
    // Each running one needs the rest of its text's pages, and soon a page for what it answers.
    const promised = this.running.reduce(
      (sum, { pages, tokens }) => sum + Math.max(1, pagesFor(tokens.length + 1) - pages.length),
      0,
    );
    return missing + promised <= this.#cache.available - idle;
  }

  /**
   * Skips what is cached of the text that comes next.
   * @returns what to copy before the step that is being formed
   */
  adopt(sequence: Sequence): Omit<Adopted, 'at'> {
    const { scheduled, tokens } = sequence;
    const { at, ...copies } = this.#cache.adopt(sequence, tokens, scheduled, this.submitted + 1);
    sequence.scheduled = at;
    // What it computed itself before it gave its place back was not saved to it.
    if (sequence.departures === 0) sequence.cachedTokens += at - scheduled;
    sequence.adopted += at - scheduled;
    return copies;
  }

  /** What steps already submitted leave to copy before the next one. */
  takeDue(): StateCopy[] {
    return this.#cache.states?.takeDue(this.submitted + 1) ?? [];
  }

  /**
   * Lets others share the pages that the step that is being formed fills.
   * @param keeps the states behind them, too
   */
  publish(sequence: Sequence, keeps: boolean): void {
    const count = sequence.scheduled;
    this.#cache.publish(sequence, sequence.tokens, { count, keeps }, this.submitted + 1);
  }

  /** Makes the table hold so many tokens, at nobody's cost; false: it cannot. */
  grow(sequence: Sequence, tokens: number): boolean {
    return this.#cache.grow(sequence, tokens);
  }

  /**
   * Makes the table hold `wanted` further tokens, or as many as there are pages for: with none, those that decode go on
   * and give pages back. Younger prompts have none to give, since older ones come first.
   * @returns how many, and whether the states of layers behind them are worth keeping
   */
  fitPrompt(sequence: Sequence, wanted: number): { count: number; keeps: boolean } {
    const { count, keeps } = this.#cache.chunk(sequence.tokens, sequence.scheduled, wanted);
    const room = (sequence.pages.length + this.#cache.available) * pageTokens - sequence.scheduled;
    const fit = Math.min(count, room);
    this.#cache.grow(sequence, sequence.scheduled + fit);
    return { count: fit, keeps: keeps && fit === count };
  }

  /** Makes the table hold so many tokens, if need be at the cost of younger sequences; false: not in this step. */
  makeRoom(sequence: Sequence, tokens: number): boolean {
    while (!this.#cache.grow(sequence, tokens)) {
      // Whoever waits for its last token gives its pages back by itself.
      if (this.running.some((one) => one.phase === 'decode' && !isDecoding(one))) return false;
      const youngest = this.running.at(-1) as Sequence;
      this.#preempt(youngest);
      if (youngest === sequence) return false;
    }
    return true;
  }

  /**
   * Where nobody has anything to compute: prompts wait for pages that other prompts hold, because a beginning that one of
   * them was to go on from was gone when its turn came. The youngest gives way.
   * @returns whether it was so
   */
  relieve(): boolean {
    const { running } = this;
    if (running.length < 2 || running.some(({ phase }) => phase !== 'prefill')) return false;
    this.#preempt(running.at(-1) as Sequence);
    return true;
  }

  /** The sequence gives everything back and waits, before all that arrived after it. */
  #preempt(sequence: Sequence): void {
    this.leave(sequence);
    this.queue(sequence);
    this.#onPreempt();
  }

  /** Gives everything back; it will compute its text again. */
  leave(sequence: Sequence): void {
    this.release(sequence);
    sequence.departures += 1;
    sequence.scheduled = 0;
    sequence.adopted = 0;
    // Tokens still on their way are drawn again, and are the same then.
    sequence.drawn = sequence.answered;
    sequence.scoring = sequence.scores?.length ?? 1;
  }

  /** Tells the GPU of pages that it does not know of. */
  upload(sequence: Sequence): void {
    const { pages, slot, tabled } = sequence;
    if (pages.length === tabled) return;
    this.#runner.setPages(slot, pages, tabled);
    sequence.tabled = pages.length;
  }

  /** Takes slot and pages back; what is written stays in the prefix cache. */
  release(sequence: Sequence): void {
    const at = this.running.indexOf(sequence);
    if (at < 0) return;
    this.running.splice(at, 1);
    this.#freeSlots.push(sequence.slot);
    // The token drawn last is not written yet; of one that is written, the id may be on its way still.
    const { scheduled, tokens } = sequence;
    const written = Math.min(scheduled, tokens.length);
    this.#cache.release(sequence, tokens, written, this.submitted, scheduled - written);
    sequence.tabled = 0;
  }

  /** Takes a sequence out wherever it is here. */
  remove(sequence: Sequence): void {
    const at = this.waiting.indexOf(sequence);
    if (at >= 0) this.waiting.splice(at, 1);
    this.release(sequence);
  }

  /** Forgets all sequences, and returns them. */
  clear(): Sequence[] {
    return [...this.waiting.splice(0), ...this.running.splice(0)];
  }
}

function insertByArrival(list: Sequence[], sequence: Sequence): void {
  list.splice(list.findLastIndex(({ order }) => order < sequence.order) + 1, 0, sequence);
}
