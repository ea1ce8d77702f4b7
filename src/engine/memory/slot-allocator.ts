import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { type PrefixReuse, KvCache, pagesFor } from './kv-cache.ts';
import type { StateCopy } from './retained-states.ts';
import { FairQueue } from '../scheduling/fair-queue.ts';
import { FairShare } from '../scheduling/fair-share.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { isDecoding } from '../scheduling/batch-entry.ts';
import { uploadSampling, type StepRunner } from '../execution/step-runner.ts';

/**
 * Assigns slots and KV pages to sequences, and queues those that wait for them: in arrival order for each client, and
 * by fair shares between clients. Pages are allocated as sequences grow; when none are left, the last running sequence
 * is preempted, which is the youngest of a client that runs the most.
 */
export class SlotAllocator {
  readonly running: Sequence[] = [];
  readonly waiting = new FairQueue();
  readonly shares: FairShare;
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

  /**
   * @param onPreempt called whenever a sequence is preempted for lack of pages, or to make room for another client's
   * @param weights of clients, see `ClientShares`
   */
  constructor(runner: StepRunner, onPreempt: () => void, weights?: ReadonlyMap<string, number>) {
    const { pages, slots, retainedStates: keptStates } = runner.memory.capacity;
    this.#runner = runner;
    this.#cache = new KvCache(pages, keptStates);
    this.#freeSlots = Array.from({ length: slots }, (_, slot) => slots - 1 - slot);
    this.#onPreempt = onPreempt;
    this.shares = new FairShare(this.running, this.waiting, weights);
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

  /** Adds a sequence to the waiting queue, at its position in its client's arrival order. */
  enqueue(sequence: Sequence): void {
    sequence.wait('waiting');
    this.shares.arrive(sequence);
    this.waiting.add(sequence);
  }

  /**
   * Moves waiting sequences to the running queue while slots and pages are available, or while a client that runs more
   * than its share makes room.
   */
  admit(now: number): void {
    // A smaller sequence does not overtake the one whose turn it is.
    for (let next = this.shares.next(); next && this.#makePlace(next); next = this.shares.next()) {
      this.waiting.remove(next);
      this.shares.admit(next);
      this.running.push(next);
      next.admit(this.#freeSlots.pop() as number, now);
      if (next.request.hiddenState) this.#unshared.add(next);
      uploadSampling(this.#runner, next);
      this.shares.sort();
    }
    this.shares.sort();
  }

  /** Preempts sequences of clients that run more than their share until a sequence has a slot and pages, or none is left. */
  #makePlace(sequence: Sequence): boolean {
    while (this.#freeSlots.length === 0 || !this.#hasRoom(sequence)) {
      const victim = this.shares.victimFor(sequence);
      if (!victim) return false;
      this.#preemptForRoom(victim);
    }
    return true;
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
   * Extends the page table to hold this many tokens, preempting sequences after it in the running order if needed; false when not possible
   * in this step.
   */
  makeRoom(sequence: Sequence, tokens: number): boolean {
    while (!this.#cache.grow(sequence, tokens)) {
      // A sequence that waits for its last token will release its pages by itself.
      if (this.running.some((one) => one.phase === 'decode' && !isDecoding(one))) return false;
      const last = this.running.at(-1) as Sequence;
      this.#preemptForRoom(last);
      if (last === sequence) return false;
    }
    return true;
  }

  /**
   * Breaks a deadlock in which no sequence can compute anything: prompts wait for pages that other prompts hold,
   * because a cached prefix was evicted before it could be reused. Preempts the last sequence.
   * @returns whether there was a deadlock
   */
  breakDeadlock(): boolean {
    const { running } = this;
    if (running.length < 2 || running.some(({ phase }) => phase !== 'prefill')) return false;
    this.#preemptForRoom(running.at(-1) as Sequence);
    return true;
  }

  /** Preempts a sequence and returns it to the waiting queue, ahead of all of its client that arrived later. */
  #preemptForRoom(sequence: Sequence): void {
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
    this.waiting.remove(sequence);
    this.release(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    return [...this.waiting.clear(), ...this.running.splice(0)];
  }
}
