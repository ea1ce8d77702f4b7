import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { pagesFor } from './kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from './sequence.ts';
import { setSampling, type StepRunner } from './step-runner.ts';

/** State of the draft model's KV cache for one slot. */
interface Lane {
  owner: Sequence | undefined;
  /** Tokens whose keys and values are written, by position; the last ones may be rejected drafts. */
  readonly written: number[];
  /** Number of leading tokens of `written` that are known to match the owner's text. */
  checked: number;
  readonly pages: number[];
}

/**
 * The KV cache of a draft model, with the slot numbers of the target model. A sequence that takes over a slot reuses
 * the prefix it shares with the previous text, so a continued conversation is not computed again. Nothing is copied
 * between slots. A sequence for which there are no pages gets no drafts.
 */
export class DraftLanes {
  readonly #runner: StepRunner;
  readonly #lanes: Lane[];
  readonly #free: number[];

  constructor(runner: StepRunner) {
    const { slots, pages } = runner.memory.capacity;
    this.#runner = runner;
    this.#lanes = Array.from({ length: slots }, () => ({
      owner: undefined,
      written: [],
      checked: 0,
      pages: [],
    }));
    this.#free = Array.from({ length: pages }, (_, page) => pages - 1 - page);
  }

  /** Number of tokens at the end of the sequence's text that are not computed yet; always at least the last one. */
  missing(sequence: Sequence): number {
    const { tokens } = sequence;
    const lane = this.#laneOf(sequence);
    const { written } = lane;
    let same = lane.checked;
    // The next token is sampled from the row of the last token, so that row must be computed.
    const most = Math.min(written.length, tokens.length - 1);
    while (same < most && written[same] === tokens[same]) same += 1;
    written.length = same;
    lane.checked = same;
    return tokens.length - same;
  }

  /** Records tokens that submitted steps write after those already written. */
  write(sequence: Sequence, ids: Iterable<number>): void {
    this.#laneOf(sequence).written.push(...ids);
  }

  /** True when there are pages for this many tokens, counting those that idle slots would release. */
  fits(sequence: Sequence, tokens: number): boolean {
    const wanted = pagesFor(tokens) - this.#laneOf(sequence).pages.length;
    if (wanted <= this.#free.length) return true;
    const idle = this.#lanes.reduce((sum, lane, slot) => sum + lane.pages.length - pagesInUse(lane, slot), 0);
    return wanted <= this.#free.length + idle;
  }

  /**
   * Extends the slot's page table to hold this many tokens, reclaiming pages of idle slots if needed.
   * @returns false when there are not enough pages
   */
  grow(sequence: Sequence, tokens: number): boolean {
    const { pages } = this.#laneOf(sequence);
    const { length } = pages;
    const wanted = pagesFor(tokens) - length;
    if (wanted <= 0) return true;
    if (this.#free.length < wanted) this.#takeBack(wanted);
    if (this.#free.length < wanted) return false;
    pages.push(...this.#free.splice(-wanted));
    this.#runner.setPages(sequence.slot, pages, length);
    return true;
  }

  /** Discards all cached prefixes: later texts are computed from their start. */
  forget(): void {
    for (const lane of this.#lanes) {
      lane.written.length = 0;
      lane.checked = 0;
    }
  }

  #laneOf(sequence: Sequence): Lane {
    const lane = this.#lanes[sequence.slot] as Lane;
    if (lane.owner !== sequence) {
      lane.owner = sequence;
      lane.checked = 0;
      // Drafts are sampled with the sequence's logit bias, as in the target model.
      setSampling(this.#runner, sequence);
    }
    return lane;
  }

  /** Frees up to `wanted` pages that no active sequence needs. */
  #takeBack(wanted: number): void {
    for (const [slot, lane] of this.#lanes.entries()) {
      if (this.#free.length >= wanted) return;
      const used = pagesInUse(lane, slot);
      this.#free.push(...lane.pages.splice(used));
      lane.written.length = Math.min(lane.written.length, used * pageTokens);
      lane.checked = Math.min(lane.checked, lane.written.length);
    }
  }
}

/**
 * Number of pages a sequence that still owns its slot needs. A longer text that used the slot before may have left
 * more.
 */
function pagesInUse({ owner, pages }: Lane, slot: number): number {
  if (owner?.phase !== 'decode' || owner.slot !== slot) return 0;
  return Math.min(pages.length, pagesFor(owner.tokens.length + maxDrafts));
}
