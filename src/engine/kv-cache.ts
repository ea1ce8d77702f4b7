import { pageTokens } from '../../kernels/rope-kv-write.ts';
import { KeptStates, type StateCopy } from './kept-states.ts';
import { PagePool } from './page-pool.ts';
import { type Block, type Match, PrefixCache } from './prefix-cache.ts';

/** Whose pages they are, by position: page `p / pageTokens` holds position `p`. */
export interface BlockTable {
  pages: number[];
  /** Whose states of layers are its own. */
  slot?: number;
}

/** The contents of page `from` are to be copied to `to` before the step runs. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** Pages that hold `tokens` tokens. */
export const pagesFor = (tokens: number): number => Math.ceil(tokens / pageTokens);

/** What was found of a text, and what has to be copied before the step runs. */
export interface Adopted {
  /** Tokens that need not be computed. */
  readonly at: number;
  readonly copy?: PageCopy;
  readonly state?: StateCopy;
}

/**
 * The accounting of all that layers keep of texts. Keys and values are paged: pages on demand, shared where texts begin
 * alike, kept for later texts when a sequence leaves them. Pure: it names pages and copies, and touches no GPU.
 *
 * A page that is shared or kept is full or at rest, so nobody writes to it: a sequence whose text parts from a cached
 * one in the middle of a page gets a copy of that page.
 *
 * A state of a layer is one for a whole text, in the sequence's slot. Copies of some are kept where texts are likely to
 * part; a text goes on from the longest cached beginning that has one. Layers of either kind, or of both, need no more.
 */
export class KvCache {
  readonly pool: PagePool;
  readonly prefixes: PrefixCache;
  /** Absent where layers have no states. */
  readonly states: KeptStates | undefined;

  /** @param keptStates places for states of layers; undefined: no layer has any */
  constructor(pages: number, keptStates?: number) {
    const states = keptStates === undefined ? undefined : new KeptStates(keptStates);
    this.pool = new PagePool(pages);
    this.prefixes = new PrefixCache(this.pool, (block) => states?.forget(block));
    this.states = states;
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
    // Room may have been made by letting go of the very page that is wanted.
    return { at: whole + part.length, ...(from === to ? {} : { copy: { from, to } }) };
  }

  /** Whole pages and a last one that end where a state was kept. */
  #adoptWithState(table: BlockTable, { blocks, part }: Match, at: number, step: number): Adopted {
    const last = part?.block ?? blocks.at(-1);
    const place = last && this.states?.placeOf(last, step);
    const whole = blocks.length * pageTokens;
    const now = whole + (part?.length ?? 0);
    const idle = blocks.slice(at / pageTokens).filter(({ page }) => this.pool.users(page) === 0).length;
    // Without a page to go on in there may be no step, and the copy would not be made.
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

  /** What of a match can be gone on from: with states, up to the last one that was kept. */
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
   * Where a chunk of a prompt had better end, so that the states behind it are worth keeping: where the text parts from
   * a cached one, and at the last whole page, behind which texts to come will go on otherwise.
   * @returns tokens from `first` on, at most `count`, and whether the states behind them are to be kept
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
   * Pages a text would have to take beyond those that are cached, and how many of the cached ones nobody uses.
   * @param count tokens that it is going to have
   */
  demand(tokens: readonly number[], count: number): { missing: number; idle: number } {
    const { blocks } = this.#usable(this.prefixes.match(tokens, tokens.length - 1), Number.POSITIVE_INFINITY);
    const idle = blocks.filter(({ page }) => this.pool.users(page) === 0).length;
    return { missing: pagesFor(count) - blocks.length, idle };
  }

  /**
   * Lets others share the whole pages of a running sequence's first `count` tokens.
   * @param keeps the states behind them, too
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
   * Takes a sequence's pages back and keeps what is written.
   * @param written tokens from the start whose keys and values are written, or will be by steps already submitted
   * @param ahead further tokens behind which the states of its slot are already
   */
  release(table: BlockTable, tokens: readonly number[], written: number, step: number, ahead = 0): void {
    const last = this.prefixes.insert(tokens, written, table.pages, step);
    if (last && ahead === 0) this.states?.keep(last, table.slot ?? 0, step);
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
