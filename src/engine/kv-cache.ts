import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { KeptStates, type StateCopy } from './kept-states.ts';
import { PagePool } from './page-pool.ts';
import { type Block, type Match, PrefixCache } from './prefix-cache.ts';

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
export interface Adopted {
  /** Tokens that need not be computed. */
  readonly at: number;
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
  readonly states: KeptStates | undefined;

  /** @param retainedStates number of layer states that can be retained; undefined when no layer has one */
  constructor(pages: number, keptStates?: number) {
    const states = keptStates === undefined ? undefined : new KeptStates(keptStates);
    this.pool = new PagePool(pages);
    this.prefixes = new PrefixCache(this.pool, (block) => states?.forget(block));
    this.states = states;
  }

  /** Pages that can be allocated without preempting a running sequence. */
  get available(): number {
    return this.pool.free + this.pool.cached;
  }

  /** Extends the table to hold this many tokens, evicting cached pages if needed; all or nothing. */
  grow(table: BlockTable, tokens: number): boolean {
    const missing = pagesFor(tokens) - table.pages.length;
    if (missing > this.available) return false;
    for (let n = 0; n < missing; n++) table.pages.push(this.#take());
    return true;
  }

  /**
   * Appends cached pages that continue a sequence's text. The last token is always left to compute, because its
   * logits are needed. Does nothing in the middle of a page.
   * @param computedTokens tokens that the sequence already has
   * @param step number of the step being formed; pages that it writes can be shared, but not copied
   * @returns tokens that the sequence has now
   */
  adopt(table: BlockTable, tokens: readonly number[], at: number, step: number): Adopted {
    if (table.pages.length * pageTokens !== at) return { at };
    const match = this.#usable(this.prefixes.match(tokens, tokens.length - 1), step);
    const { blocks, part } = match;
    if (blocks.length < at / pageTokens) return { at };
    this.prefixes.touch(match);
    if (this.states) return this.#adoptWithState(table, match, at, step);
    for (const { page } of blocks.slice(at / pageTokens)) {
      this.pool.share(page);
      table.pages.push(page);
    }
    const whole = blocks.length * pageTokens;
    if (!part || part.block.step >= step || this.available === 0) return { at: whole };
    const from = part.block.page;
    const to = this.#take();
    table.pages.push(to);
    // Allocating may have evicted the very page that was to be copied.
    return { at: whole + part.length, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /** Reuses whole pages and a last page, up to a position whose state was retained. */
  #adoptWithState(table: BlockTable, { blocks, part }: Match, at: number, step: number): Adopted {
    const last = part?.block ?? blocks.at(-1);
    const place = last && this.states?.placeOf(last, step);
    const whole = blocks.length * pageTokens;
    const now = whole + (part?.length ?? 0);
    const idle = blocks.slice(at / pageTokens).filter(({ page }) => this.pool.users(page) === 0).length;
    // Without a free page to continue in, the sequence may not be in the step, and the copy would not be made.
    if (!last || place === undefined || now <= at || this.available <= idle) return { at };
    this.states?.touch(last);
    for (const { page } of blocks.slice(at / pageTokens)) {
      this.pool.share(page);
      table.pages.push(page);
    }
    const state = { kind: 'restore', slot: table.slot ?? 0, place } as const;
    if (!part) return { at: whole, state };
    const from = part.block.page;
    const to = this.#take();
    table.pages.push(to);
    return { at: now, state, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /** The usable part of a match: with layer states, up to the last position whose state was retained. */
  #usable(match: Match, step: number): Match {
    const { states } = this;
    if (!states) return match;
    const { blocks, part } = match;
    const ends = ({ block, length }: { block: Block; length: number }) =>
      length === block.tokens.length && block.step < step && states.placeOf(block, step) !== undefined;
    if (part && ends(part)) return match;
    const last = blocks.findLastIndex((block) => states.placeOf(block, step) !== undefined);
    return { blocks: blocks.slice(0, last + 1), part: undefined };
  }

  /**
   * Shortens a prompt chunk so that it ends where the state is worth retaining: where the text diverges from a cached
   * one, and at the last whole page, after which future texts are likely to differ.
   * @returns tokens from `first` on, at most `count`, and whether to retain the state after them
   */
  chunk(tokens: readonly number[], first: number, count: number): { count: number; keeps: boolean } {
    if (!this.states?.total || count === 0) return { count, keeps: false };
    const end = first + count;
    const lastWhole = Math.floor((tokens.length - 1) / pageTokens) * pageTokens;
    const parting = this.prefixes.match(tokens, tokens.length - 1).blocks.length * pageTokens;
    const stop = [parting, lastWhole].find((at) => at > first && at <= end);
    if (stop !== undefined) return { count: stop - first, keeps: true };
    const whole = end - (end % pageTokens);
    return { count: end < tokens.length && whole > first ? whole - first : count, keeps: false };
  }

  /**
   * Pages that a text needs beyond the cached ones, and how many of the cached ones are unused.
   * @param count tokens that the text will have
   */
  demand(tokens: readonly number[], count: number): { missing: number; idle: number } {
    const { blocks } = this.#usable(this.prefixes.match(tokens, tokens.length - 1), Number.POSITIVE_INFINITY);
    const idle = blocks.filter(({ page }) => this.pool.users(page) === 0).length;
    return { missing: pagesFor(count) - blocks.length, idle };
  }

  /**
   * Adds the whole pages of a running sequence's first `count` tokens to the prefix cache.
   * @param shouldRetainState also retain the layer states after them
   */
  publish(
    table: BlockTable,
    tokens: readonly number[],
    { count, keeps = false }: { count: number; keeps?: boolean },
    step: number,
  ): void {
    const whole = count - (count % pageTokens);
    const last = this.prefixes.insert(tokens, whole, table.pages, step);
    if (keeps && last && whole === count) this.states?.keep(last, table.slot ?? 0, step);
  }

  /**
   * Takes back the pages of a sequence; written pages stay in the prefix cache.
   * @param written leading tokens whose keys and values are written, or will be by submitted steps
   * @param ahead further tokens that the slot's state already includes
   */
  release(table: BlockTable, tokens: readonly number[], written: number, step: number, ahead = 0): void {
    const last = this.prefixes.insert(tokens, written, table.pages, step);
    if (last && ahead === 0) this.states?.keep(last, table.slot ?? 0, step);
    // Releases the last page first, because free pages are reused in last-in, first-out order.
    for (let index = table.pages.length - 1; index >= 0; index--) {
      this.pool.leave(table.pages[index] as number);
    }
    table.pages.length = 0;
  }

  /** Evicts every page that no sequence uses. */
  clear(): void {
    while (this.prefixes.evict());
  }

  #take(): number {
    const page = this.pool.take() ?? (this.prefixes.evict() ? this.pool.take() : undefined);
    if (page === undefined) throw new Error('no page is available');
    return page;
  }
}
