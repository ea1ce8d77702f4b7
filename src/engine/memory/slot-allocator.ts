import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { type PrefixReuse, KvCache, pagesFor } from './kv-cache.ts';
import type { StateCopy } from './retained-states.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { isDecoding } from '../scheduling/batch-entry.ts';
import { uploadSampling, type StepRunner } from '../execution/step-runner.ts';

/**
 * Assigns slots and KV pages to sequences, and queues those that wait for them, in arrival order. Pages are allocated
 * as sequences grow; when none are left, the youngest running sequence is preempted.
 */
export class SlotAllocator {
  readonly running: Sequence[] = [];
  readonly waiting: Sequence[] = [];
  /** Number of steps submitted so far. */
  submittedSteps = 0;
  readonly #runner: StepRunner;
  readonly #cache: KvCache;
  readonly #freeSlots: number[];
  readonly #onPreempt: () => void;
  /** Running sequences whose pages do not go to the prefix cache. */
  readonly #unshared = new WeakSet<Sequence>();
  /** Number of a running sequence's pages that were written to the GPU's page table. */
  readonly #uploadedPages = new WeakMap<Sequence, number>();

  /** @param onPreempt called whenever a sequence is preempted for lack of pages */
  constructor(runner: StepRunner, onPreempt: () => void) {
    const { pages, slots, retainedStates: keptStates } = runner.memory.capacity;
    this.#runner = runner;
    this.#cache = new KvCache(pages, keptStates);
    this.#freeSlots = Array.from({ length: slots }, (_, slot) => slots - 1 - slot);
    this.#onPreempt = onPreempt;
  }

  get pages(): { total: number; free: number; cached: number } {
    const { total, free, cached } = this.#cache.pool;
    return { total, free, cached };
  }

  /** Also those that running sequences have written so far and write until they end. */
  forgetPrefixes(): void {
    this.#cache.clear();
    for (const sequence of this.running) this.#unshared.add(sequence);
  }

  /** Adds a sequence to the waiting queue, at its position in arrival order. */
  enqueue(sequence: Sequence): void {
    sequence.wait('waiting');
    insertByArrival(this.waiting, sequence);
  }

  /** Moves waiting sequences to the running queue while slots and pages are available. */
  admit(now: number): void {
    for (;;) {
      const sequence = this.waiting[0];
      const slot = this.#freeSlots.at(-1);
      // First come, first served: a smaller sequence does not overtake.
      if (!sequence || slot === undefined || !this.#hasRoom(sequence)) return;
      this.waiting.shift();
      this.#freeSlots.pop();
      insertByArrival(this.running, sequence);
      sequence.admit(slot, now);
      if (sequence.request.hiddenState) this.#unshared.add(sequence);
      uploadSampling(this.#runner, sequence);
    }
  }

  /** True when the sequence fits without preempting another one; a sequence that runs alone always fits. */
  #hasRoom(sequence: Sequence): boolean {
    const { tokens: text, request, isScoring, canReusePrefix } = sequence;
    // Nothing follows a prompt that is only scored.
    const count = Math.min(text.length + 1, request.prompt.length + request.maxTokens);
    const { missingPages, idlePages } =
      isScoring || !canReusePrefix
        ? { missingPages: pagesFor(count), idlePages: 0 }
        : this.#cache.pageDemand(text, count);
    // Each running sequence still needs the rest of its pages, and soon one more for its output.
    const reservedPages = this.running.reduce(
      (sum, { pages, tokens }) => sum + Math.max(1, pagesFor(tokens.length + 1) - pages.length),
      0,
    );
    return missingPages + reservedPages <= this.#cache.availablePages - idlePages;
  }

  /**
   * Reuses cached pages that continue the sequence's text.
   * @returns copies to make before the step being formed
   */
  reusePrefix(sequence: Sequence): Omit<PrefixReuse, 'computedTokens'> {
    if (this.#unshared.has(sequence)) return {};
    const { scheduledTokens, tokens } = sequence;
    const { computedTokens, ...copies } = this.#cache.reusePrefix(
      sequence,
      tokens,
      scheduledTokens,
      this.submittedSteps + 1,
    );
    sequence.reusePrefix(computedTokens);
    return copies;
  }

  /** Copies that submitted steps require before the next one. */
  takeDueCopies(): StateCopy[] {
    return this.#cache.states?.takeDueCopies(this.submittedSteps + 1) ?? [];
  }

  /**
   * Adds the pages that the step being formed fills to the prefix cache.
   * @param shouldRetainState also retain the layer states after them
   */
  publish(sequence: Sequence, shouldRetainState: boolean): void {
    if (this.#unshared.has(sequence)) return;
    const count = sequence.scheduledTokens;
    this.#cache.publish(sequence, sequence.tokens, { count, shouldRetainState }, this.submittedSteps + 1);
  }

  /** Extends the page table to hold this many tokens without preempting anyone; false when it cannot. */
  grow(sequence: Sequence, tokens: number): boolean {
    return this.#cache.grow(sequence, tokens);
  }

  /**
   * Extends the page table by up to `wanted` tokens, as far as pages are available. When there are none, decoding
   * sequences continue and release pages. Younger prompts are not preempted: older ones already come first.
   * @returns the number of tokens, and whether the layer states after them are worth retaining
   */
  fitPrompt(sequence: Sequence, wanted: number): { count: number; shouldRetainState: boolean } {
    const { count, shouldRetainState } = this.#cache.planChunk(
      sequence.tokens,
      sequence.scheduledTokens,
      wanted,
    );
    const roomTokens =
      (sequence.pages.length + this.#cache.availablePages) * pageTokens - sequence.scheduledTokens;
    const fittingTokens = Math.min(count, roomTokens);
    this.#cache.grow(sequence, sequence.scheduledTokens + fittingTokens);
    return { count: fittingTokens, shouldRetainState: shouldRetainState && fittingTokens === count };
  }

  /**
   * Extends the page table to hold this many tokens, preempting younger sequences if needed; false when not possible
   * in this step.
   */
  makeRoom(sequence: Sequence, tokens: number): boolean {
    while (!this.#cache.grow(sequence, tokens)) {
      // A sequence that waits for its last token will release its pages by itself.
      if (this.running.some((one) => one.phase === 'decode' && !isDecoding(one))) return false;
      const youngest = this.running.at(-1) as Sequence;
      this.#preemptForPages(youngest);
      if (youngest === sequence) return false;
    }
    return true;
  }

  /**
   * Breaks a deadlock in which no sequence can compute anything: prompts wait for pages that other prompts hold,
   * because a cached prefix was evicted before it could be reused. Preempts the youngest sequence.
   * @returns whether there was a deadlock
   */
  breakDeadlock(): boolean {
    const { running } = this;
    if (running.length < 2 || running.some(({ phase }) => phase !== 'prefill')) return false;
    this.#preemptForPages(running.at(-1) as Sequence);
    return true;
  }

  /** Preempts a sequence for lack of pages and returns it to the waiting queue, ahead of all that arrived later. */
  #preemptForPages(sequence: Sequence): void {
    this.preempt(sequence);
    this.enqueue(sequence);
    this.#onPreempt();
  }

  /** Releases slot and pages of a sequence and resets it, so that its text is computed again. */
  preempt(sequence: Sequence): void {
    this.release(sequence);
    sequence.restart();
  }

  /** Writes new entries of the sequence's page table to the GPU. */
  uploadPageTable(sequence: Sequence): void {
    const { pages, slot } = sequence;
    const uploadedPages = this.#uploadedPages.get(sequence) ?? 0;
    if (pages.length === uploadedPages) return;
    this.#runner.setPages(slot, pages, uploadedPages);
    this.#uploadedPages.set(sequence, pages.length);
  }

  /** Releases slot and pages; written pages stay in the prefix cache. */
  release(sequence: Sequence): void {
    const at = this.running.indexOf(sequence);
    if (at < 0) return;
    this.running.splice(at, 1);
    this.#freeSlots.push(sequence.slot);
    // The token sampled last is not written yet; a written token's id may still be in flight.
    const { scheduledTokens, tokens } = sequence;
    const isShared = !this.#unshared.delete(sequence);
    const written = isShared ? Math.min(scheduledTokens, tokens.length) : 0;
    this.#cache.release(sequence, tokens, written, this.submittedSteps, scheduledTokens - written);
    this.#uploadedPages.delete(sequence);
  }

  /** Removes a sequence from whichever queue holds it. */
  remove(sequence: Sequence): void {
    const at = this.waiting.indexOf(sequence);
    if (at >= 0) this.waiting.splice(at, 1);
    this.release(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    return [...this.waiting.splice(0), ...this.running.splice(0)];
  }
}

function insertByArrival(list: Sequence[], sequence: Sequence): void {
  list.splice(
    list.findLastIndex(({ arrivalOrder }) => arrivalOrder < sequence.arrivalOrder) + 1,
    0,
    sequence,
  );
}
