import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import { RetainedStates, type StateCopy } from './retained-states.ts';
import { PagePool } from './page-pool.ts';
import { type PrefixBlock, type PrefixMatch, PrefixCache } from './prefix-cache.ts';

/** The pages of a sequence, by position: page index `floor(p / pageTokens)` holds position `p`. */
export interface BlockTable {
  pages: number[];
  /** Slot that holds the sequence's layer states. */
  slot?: number;
}

/** A copy of the contents of page `from` to page `to`, before the step runs. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** Number of pages that hold `tokens` tokens. */
export const pagesFor = (tokens: number): number => Math.ceil(tokens / pageTokens);

/** Result of prefix reuse, and the copies to make before the step runs. */
export interface PrefixReuse {
  /** Tokens that need not be computed. */
  readonly computedTokens: number;
  readonly copy?: PageCopy;
  readonly state?: StateCopy;
}

/**
 * Bookkeeping of everything that layers store for sequences. Keys and values are paged: pages are allocated on
 * demand, shared between sequences with the same prefix, and kept in the prefix cache when a sequence releases them.
 * This class does not touch the GPU; it returns page numbers and copies to make.
 *
 * Nobody writes to a shared or cached page: it is full, or its sequence is finished. A sequence whose text diverges
 * from a cached one in the middle of a page gets a copy of that page.
 *
 * A layer state covers a whole text and lies in the sequence's slot. Copies of some states are retained where texts
 * are likely to diverge; a new text continues from the longest cached prefix that has one. This works for layers of
 * either kind.
 */
export class KvCache {
  readonly pool: PagePool;
  readonly prefixes: PrefixCache;
  /** Undefined when no layer has a state. */
  readonly states: RetainedStates | undefined;

  /** @param retainedStates number of layer states that can be retained; undefined when no layer has one */
  constructor(pages: number, retainedStates?: number) {
    const states = retainedStates === undefined ? undefined : new RetainedStates(retainedStates);
    this.pool = new PagePool(pages);
    this.prefixes = new PrefixCache(this.pool, (block) => states?.forget(block));
    this.states = states;
  }

  /** Pages that can be allocated without preempting a running sequence. */
  get availablePages(): number {
    return this.pool.free + this.pool.cached;
  }

  /** Extends the table to hold this many tokens, evicting cached pages if needed; all or nothing. */
  grow(table: BlockTable, tokens: number): boolean {
    const missingPages = pagesFor(tokens) - table.pages.length;
    if (missingPages > this.availablePages) return false;
    for (let n = 0; n < missingPages; n++) table.pages.push(this.#allocatePage());
    return true;
  }

  /**
   * Appends cached pages that continue a sequence's text. The last token is always left to compute, because its
   * logits are needed. Does nothing in the middle of a page.
   * @param computedTokens tokens that the sequence already has
   * @param step number of the step being formed; pages that it writes can be shared, but not copied
   * @returns tokens that the sequence has now
   */
  reusePrefix(
    table: BlockTable,
    tokens: readonly number[],
    computedTokens: number,
    step: number,
  ): PrefixReuse {
    if (table.pages.length * pageTokens !== computedTokens) return { computedTokens };
    const match = this.#usablePrefix(this.prefixes.match(tokens, tokens.length - 1), step);
    const { blocks, partial } = match;
    if (blocks.length < computedTokens / pageTokens) return { computedTokens };
    this.prefixes.touch(match);
    if (this.states) return this.#reusePrefixWithState(table, match, computedTokens, step);
    for (const { page } of blocks.slice(computedTokens / pageTokens)) {
      this.pool.addUser(page);
      table.pages.push(page);
    }
    const wholeTokens = blocks.length * pageTokens;
    if (!partial || partial.block.step >= step || this.availablePages === 0)
      return { computedTokens: wholeTokens };
    const from = partial.block.page;
    const to = this.#allocatePage();
    table.pages.push(to);
    // Allocating may have evicted the very page that was to be copied.
    return { computedTokens: wholeTokens + partial.length, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /** Reuses whole pages and a last page, up to a position whose state was retained. */
  #reusePrefixWithState(
    table: BlockTable,
    { blocks, partial }: PrefixMatch,
    computedTokens: number,
    step: number,
  ): PrefixReuse {
    const last = partial?.block ?? blocks.at(-1);
    const retainedIndex = last && this.states?.retainedIndexOf(last, step);
    const wholeTokens = blocks.length * pageTokens;
    const reusedTokens = wholeTokens + (partial?.length ?? 0);
    const idlePages = blocks
      .slice(computedTokens / pageTokens)
      .filter(({ page }) => this.pool.users(page) === 0).length;
    // Without a free page to continue in, the sequence may not be in the step, and the copy would not be made.
    if (
      !last ||
      retainedIndex === undefined ||
      reusedTokens <= computedTokens ||
      this.availablePages <= idlePages
    )
      return { computedTokens };
    this.states?.touch(last);
    for (const { page } of blocks.slice(computedTokens / pageTokens)) {
      this.pool.addUser(page);
      table.pages.push(page);
    }
    const state = { kind: 'restore', slot: table.slot ?? 0, retainedIndex } as const;
    if (!partial) return { computedTokens: wholeTokens, state };
    const from = partial.block.page;
    const to = this.#allocatePage();
    table.pages.push(to);
    return { computedTokens: reusedTokens, state, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /** The usable part of a match: with layer states, up to the last position whose state was retained. */
  #usablePrefix(match: PrefixMatch, step: number): PrefixMatch {
    const { states } = this;
    if (!states) return match;
    const { blocks, partial } = match;
    const endsAtState = ({ block, length }: { block: PrefixBlock; length: number }) =>
      length === block.tokens.length &&
      block.step < step &&
      states.retainedIndexOf(block, step) !== undefined;
    if (partial && endsAtState(partial)) return match;
    const last = blocks.findLastIndex((block) => states.retainedIndexOf(block, step) !== undefined);
    return { blocks: blocks.slice(0, last + 1), partial: undefined };
  }

  /**
   * Shortens a prompt chunk so that it ends where the state is worth retaining: where the text diverges from a cached
   * one, and at the last whole page, after which future texts are likely to differ.
   * @returns tokens from `first` on, at most `count`, and whether to retain the state after them
   */
  planChunk(
    tokens: readonly number[],
    first: number,
    count: number,
  ): { count: number; shouldRetainState: boolean } {
    if (!this.states?.capacity || count === 0) return { count, shouldRetainState: false };
    const end = first + count;
    const lastWhole = Math.floor((tokens.length - 1) / pageTokens) * pageTokens;
    const divergence = this.prefixes.match(tokens, tokens.length - 1).blocks.length * pageTokens;
    const boundary = [divergence, lastWhole].find((at) => at > first && at <= end);
    if (boundary !== undefined) return { count: boundary - first, shouldRetainState: true };
    const wholeTokens = end - (end % pageTokens);
    return {
      count: end < tokens.length && wholeTokens > first ? wholeTokens - first : count,
      shouldRetainState: false,
    };
  }

  /**
   * Pages that a text needs beyond the cached ones, and how many of the cached ones are unused.
   * @param count tokens that the text will have
   */
  pageDemand(tokens: readonly number[], count: number): { missingPages: number; idlePages: number } {
    const { blocks } = this.#usablePrefix(
      this.prefixes.match(tokens, tokens.length - 1),
      Number.POSITIVE_INFINITY,
    );
    const idlePages = blocks.filter(({ page }) => this.pool.users(page) === 0).length;
    return { missingPages: pagesFor(count) - blocks.length, idlePages };
  }

  /**
   * Adds the whole pages of a running sequence's first `count` tokens to the prefix cache.
   * @param shouldRetainState also retain the layer states after them
   */
  publish(
    table: BlockTable,
    tokens: readonly number[],
    { count, shouldRetainState = false }: { count: number; shouldRetainState?: boolean },
    step: number,
  ): void {
    const wholeTokens = count - (count % pageTokens);
    const last = this.prefixes.insert(tokens, wholeTokens, table.pages, step);
    if (shouldRetainState && last && wholeTokens === count) this.states?.retain(last, table.slot ?? 0, step);
  }

  /**
   * Takes back the pages of a sequence; written pages stay in the prefix cache.
   * @param written leading tokens whose keys and values are written, or will be by submitted steps
   * @param ahead further tokens that the slot's state already includes
   */
  release(table: BlockTable, tokens: readonly number[], written: number, step: number, ahead = 0): void {
    const last = this.prefixes.insert(tokens, written, table.pages, step);
    if (last && ahead === 0) this.states?.retain(last, table.slot ?? 0, step);
    // Releases the last page first, because free pages are reused in last-in, first-out order.
    for (let index = table.pages.length - 1; index >= 0; index--) {
      this.pool.removeUser(table.pages[index] as number);
    }
    table.pages.length = 0;
  }

  /** Removes every page from the prefix cache. Sequences keep theirs. */
  clear(): void {
    this.prefixes.clear();
  }

  #allocatePage(): number {
    const page = this.pool.allocate() ?? (this.prefixes.evict() ? this.pool.allocate() : undefined);
    if (page === undefined) throw new Error('no page is available');
    return page;
  }
}
