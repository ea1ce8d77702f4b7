import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { pagesFor } from './kv-cache.ts';
import { maxDrafts } from './prompt-lookup.ts';
import type { Sequence } from './sequence.ts';
import { setSampling, type StepRunner } from './step-runner.ts';

/** What the draft model's memory holds of the sequence in a slot. */
interface Lane {
  owner: Sequence | undefined;
  /** Tokens whose keys and values are written, by position; the last ones may be guesses that did not come true. */
  readonly written: number[];
  /** Of those, how many are known to be the owner's text. */
  checked: number;
  readonly pages: number[];
}

/**
 * The memory of a draft model, by the slots of the model it drafts for. Who takes a slot over goes on from what it has in
 * common with the text before it, so a conversation that goes on is not computed anew. Nothing is ever copied, and who
 * finds no pages is not drafted for.
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

  /** Tokens at the end of the sequence's text that are not computed; always the last one. */
  missing(sequence: Sequence): number {
    const { tokens } = sequence;
    const lane = this.#laneOf(sequence);
    const { written } = lane;
    let same = lane.checked;
    // What follows the last token is drawn from its row, which has to be computed for that.
    const most = Math.min(written.length, tokens.length - 1);
    while (same < most && written[same] === tokens[same]) same += 1;
    written.length = same;
    lane.checked = same;
    return tokens.length - same;
  }

  /** Steps already submitted write these behind what is written. */
  write(sequence: Sequence, ids: Iterable<number>): void {
    this.#laneOf(sequence).written.push(...ids);
  }

  /** Whether there are pages for so many tokens, those of the ones that are gone included. */
  fits(sequence: Sequence, tokens: number): boolean {
    const wanted = pagesFor(tokens) - this.#laneOf(sequence).pages.length;
    if (wanted <= this.#free.length) return true;
    const idle = this.#lanes.reduce((sum, lane, slot) => sum + lane.pages.length - pagesInUse(lane, slot), 0);
    return wanted <= this.#free.length + idle;
  }

  /**
   * Makes the table hold so many tokens, at the cost of those that are gone.
   * @returns false: there are no pages for it
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

  /** Later texts are computed from their start. */
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
      // What is drawn goes by the sequence's bias, as in the model that it drafts for.
      setSampling(this.#runner, sequence);
    }
    return lane;
  }

  /** Frees pages that nobody needs, as many as are wanted. */
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

/** Pages that a sequence needs which has not left its slot; a longer text before its own may have needed more. */
function pagesInUse({ owner, pages }: Lane, slot: number): number {
  if (owner?.phase !== 'decode' || owner.slot !== slot) return 0;
  return Math.min(pages.length, pagesFor(owner.tokens.length + maxDrafts));
}
