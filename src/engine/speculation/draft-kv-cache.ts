import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { pagesFor } from '../memory/kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { uploadSampling, type StepRunner } from '../execution/step-runner.ts';

/** State of the draft model's KV cache for one slot. */
interface SlotState {
  owner: Sequence | undefined;
  /** Tokens whose keys and values are written, by position; the last ones may be rejected drafts. */
  readonly written: number[];
  /** Number of leading tokens of `written` that are known to match the owner's text. */
  verified: number;
  readonly pages: number[];
}

/**
 * The KV cache of a draft model, with the slot numbers of the target model. A sequence that takes over a slot reuses
 * the prefix it shares with the previous text, so a continued conversation is not computed again. Nothing is copied
 * between slots. A sequence for which there are no pages gets no drafts.
 */
export class DraftKvCache {
  readonly #runner: StepRunner;
  readonly #slotStates: SlotState[];
  readonly #freePages: number[];

  constructor(runner: StepRunner) {
    const { slots, pages } = runner.memory.capacity;
    this.#runner = runner;
    this.#slotStates = Array.from({ length: slots }, () => ({
      owner: undefined,
      written: [],
      verified: 0,
      pages: [],
    }));
    this.#freePages = Array.from({ length: pages }, (_, page) => pages - 1 - page);
  }

  /** Number of tokens at the end of the sequence's text that are not computed yet; always at least the last one. */
  missingTokens(sequence: Sequence): number {
    const { tokens } = sequence;
    const state = this.#stateOf(sequence);
    const { written } = state;
    let matching = state.verified;
    // The next token is sampled from the row of the last token, so that row must be computed.
    const limit = Math.min(written.length, tokens.length - 1);
    while (matching < limit && written[matching] === tokens[matching]) matching += 1;
    written.length = matching;
    state.verified = matching;
    return tokens.length - matching;
  }

  /** Records tokens that submitted steps write after those already written. */
  recordWritten(sequence: Sequence, ids: Iterable<number>): void {
    this.#stateOf(sequence).written.push(...ids);
  }

  /** True when there are pages for this many tokens, counting those that idle slots would release. */
  fits(sequence: Sequence, tokens: number): boolean {
    const wanted = pagesFor(tokens) - this.#stateOf(sequence).pages.length;
    if (wanted <= this.#freePages.length) return true;
    const idle = this.#slotStates.reduce(
      (sum, state, slot) => sum + state.pages.length - pagesInUse(state, slot),
      0,
    );
    return wanted <= this.#freePages.length + idle;
  }

  /**
   * Extends the slot's page table to hold this many tokens, reclaiming pages of idle slots if needed.
   * @returns false when there are not enough pages
   */
  grow(sequence: Sequence, tokens: number): boolean {
    const { pages } = this.#stateOf(sequence);
    const { length } = pages;
    const wanted = pagesFor(tokens) - length;
    if (wanted <= 0) return true;
    if (this.#freePages.length < wanted) this.#reclaimPages(wanted);
    if (this.#freePages.length < wanted) return false;
    pages.push(...this.#freePages.splice(-wanted));
    this.#runner.setPages(sequence.slot, pages, length);
    return true;
  }

  /** Discards all cached prefixes: later texts are computed from their start. */
  forgetPrefixes(): void {
    for (const state of this.#slotStates) {
      state.written.length = 0;
      state.verified = 0;
    }
  }

  #stateOf(sequence: Sequence): SlotState {
    const state = this.#slotStates[sequence.slot] as SlotState;
    if (state.owner !== sequence) {
      state.owner = sequence;
      state.verified = 0;
      // Drafts are sampled with the sequence's logit bias, as in the target model.
      uploadSampling(this.#runner, sequence);
    }
    return state;
  }

  /** Frees up to `wanted` pages that no active sequence needs. */
  #reclaimPages(wanted: number): void {
    for (const [slot, state] of this.#slotStates.entries()) {
      if (this.#freePages.length >= wanted) return;
      const used = pagesInUse(state, slot);
      this.#freePages.push(...state.pages.splice(used));
      state.written.length = Math.min(state.written.length, used * pageTokens);
      state.verified = Math.min(state.verified, state.written.length);
    }
  }
}

/**
 * Number of pages a sequence that still owns its slot needs. A longer text that used the slot before may have left
 * more.
 */
function pagesInUse({ owner, pages }: SlotState, slot: number): number {
  if (owner?.phase !== 'decode' || owner.slot !== slot) return 0;
  return Math.min(pages.length, pagesFor(owner.tokens.length + maxDrafts));
}
