import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { PagePool } from './page-pool.ts';
import { PrefixCache } from './prefix-cache.ts';

/** Whose pages they are, by position: page `p / pageTokens` holds position `p`. */
export interface BlockTable {
  pages: number[];
}

/** The contents of page `from` are to be copied to `to` before the step runs. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** Pages that hold `tokens` tokens. */
export const pagesFor = (tokens: number): number => Math.ceil(tokens / pageTokens);

/**
 * The accounting of the paged KV cache: pages on demand, shared where texts begin alike, kept for later texts
 * when a sequence leaves them. Pure: it names pages and copies, and touches no GPU.
 *
 * A page that is shared or kept is full or at rest, so nobody writes to it: a sequence whose text parts from a cached
 * one in the middle of a page gets a copy of that page.
 */
export class KvCache {
  readonly pool: PagePool;
  readonly prefixes: PrefixCache;

  constructor(pages: number) {
    this.pool = new PagePool(pages);
    this.prefixes = new PrefixCache(this.pool);
  }

  /** Pages that can be had without taking them from a running sequence. */
  get available(): number {
    return this.pool.free + this.pool.cached;
  }

  /** Makes the table hold so many tokens, at the cost of cached pages; all or nothing. */
  grow(table: BlockTable, tokens: number): boolean {
    const missing = pagesFor(tokens) - table.pages.length;
    if (missing > this.available) return false;
    for (let n = 0; n < missing; n++) table.pages.push(this.#take());
    return true;
  }

  /**
   * Gives a sequence the cached pages that go on with its text. The last token is left to compute: its logits are
   * needed. Nothing happens in the middle of a page.
   * @param at tokens that it has already
   * @param step the one being formed; what it writes itself can be shared, but not copied
   * @returns tokens it has now
   */
  adopt(
    table: BlockTable,
    tokens: readonly number[],
    at: number,
    step: number,
  ): { at: number; copy?: PageCopy } {
    if (table.pages.length * pageTokens !== at) return { at };
    const match = this.prefixes.match(tokens, tokens.length - 1);
    const { blocks, part } = match;
    if (blocks.length < at / pageTokens) return { at };
    this.prefixes.touch(match);
    for (const { page } of blocks.slice(at / pageTokens)) {
      this.pool.share(page);
      table.pages.push(page);
    }
    const whole = blocks.length * pageTokens;
    if (!part || part.block.step >= step || this.available === 0) return { at: whole };
    const from = part.block.page;
    const to = this.#take();
    table.pages.push(to);
    // Room may have been made by letting go of the very page that is wanted.
    return { at: whole + part.length, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /**
   * Pages a text would have to take beyond those that are cached, and how many of the cached ones nobody uses.
   * @param count tokens that it is going to have
   */
  demand(tokens: readonly number[], count: number): { missing: number; idle: number } {
    const { blocks } = this.prefixes.match(tokens, tokens.length - 1);
    const idle = blocks.filter(({ page }) => this.pool.users(page) === 0).length;
    return { missing: pagesFor(count) - blocks.length, idle };
  }

  /** Lets others share the whole pages of a running sequence's first `count` tokens. */
  publish(table: BlockTable, tokens: readonly number[], count: number, step: number): void {
    this.prefixes.insert(tokens, count - (count % pageTokens), table.pages, step);
  }

  /**
   * Takes a sequence's pages back and keeps what is written.
   * @param written tokens from the start whose keys and values are written, or will be by steps already submitted
   */
  release(table: BlockTable, tokens: readonly number[], written: number, step: number): void {
    this.prefixes.insert(tokens, written, table.pages, step);
    // The end first: free pages are handed out from the last one given back.
    for (let index = table.pages.length - 1; index >= 0; index--) {
      this.pool.leave(table.pages[index] as number);
    }
    table.pages.length = 0;
  }

  /** Makes every page free that no sequence uses. */
  clear(): void {
    while (this.prefixes.evict());
  }

  #take(): number {
    const page = this.pool.take() ?? (this.prefixes.evict() ? this.pool.take() : undefined);
    if (page === undefined) throw new Error('no page is available');
    return page;
  }
}
