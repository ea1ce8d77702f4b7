import { pageTokens } from '../../kernels/rope-kv-write.ts';
import type { PagePool } from './page-pool.ts';

/** A page of the prefix cache. Its keys and values are those of `tokens` after the tokens of all ancestors. */
export interface Block {
  /** A full page of tokens; leaves may have fewer. */
  tokens: readonly number[];
  page: number;
  /** Number of the step that writes the last of these tokens. */
  step: number;
  /** Number of the step after which the layer states were retained, if they were. */
  stateStep?: number;
  readonly parent: Block | undefined;
  /** Child blocks, by their first token. */
  readonly children: Map<number, Block[]>;
}

/** The cached prefix of a text: whole pages from its start, then a part of one more page. */
export interface Match {
  readonly blocks: readonly Block[];
  readonly part: { readonly block: Block; readonly length: number } | undefined;
}

/**
 * A radix tree over pages of tokens. It records which pages hold the keys and values of which prefixes, and keeps
 * pages that no sequence uses until `evict` frees them.
 */
export class PrefixCache {
  readonly #pool: PagePool;
  /** Called with blocks that were removed or whose content was replaced. */
  readonly #onGone: (block: Block) => void;
  readonly #root: Block = { tokens: [], page: -1, step: 0, parent: undefined, children: new Map() };
  /** All blocks, least recently used first. */
  readonly #byAge = new Set<Block>();

  constructor(pool: PagePool, onGone: (block: Block) => void = () => {}) {
    this.#pool = pool;
    this.#onGone = onGone;
  }

  /** Number of pages, whether in use or not. */
  get size(): number {
    return this.#byAge.size;
  }

  /** Finds the longest cached prefix of `tokens`, at most `limit` tokens. */
  match(tokens: readonly number[], limit: number): Match {
    const blocks: Block[] = [];
    let at = this.#root;
    let part: Match['part'];
    for (let first = 0; first < limit; first += pageTokens) {
      const best = closest(at, tokens, first, Math.min(pageTokens, limit - first));
      if (!best) break;
      if (best.length < pageTokens) {
        part = best;
        break;
      }
      at = best.block;
      blocks.push(at);
    }
    return { blocks, part };
  }

  /** Marks the matched blocks as most recently used. */
  touch({ blocks, part }: Match): void {
    if (part) this.#refresh(part.block);
    // Refresh the start of the text last: more texts can reuse it than what follows it.
    for (let index = blocks.length - 1; index >= 0; index--) this.#refresh(blocks[index] as Block);
  }

  /**
   * Adds the pages of the first `count` tokens. Where a page with the same tokens exists, it stays.
   * @param pages pages in use, by position
   * @param step number of the last step that writes to them
   * @returns the block that ends with the last of these tokens, if one does
   */
  insert(
    tokens: readonly number[],
    count: number,
    pages: readonly number[],
    step: number,
  ): Block | undefined {
    const path: Block[] = [];
    let at = this.#root;
    for (let first = 0; first < count; first += pageTokens) {
      const length = Math.min(pageTokens, count - first);
      const page = pages[first / pageTokens] as number;
      const best = closest(at, tokens, first, length);
      let block: Block;
      if (best?.length === length) {
        block = best.block;
      } else if (best && best.length === best.block.tokens.length) {
        // The existing page holds a prefix of these tokens: the longer page replaces it.
        block = best.block;
        this.#pool.keep(page);
        this.#pool.forget(block.page);
        this.#onGone(block);
        Object.assign(block, { page, step, tokens: tokens.slice(first, first + length) });
      } else {
        this.#pool.keep(page);
        block = {
          tokens: tokens.slice(first, first + length),
          page,
          step,
          parent: at,
          children: new Map(),
        };
        const siblings = at.children.get(tokens[first] as number);
        if (siblings) siblings.push(block);
        else at.children.set(tokens[first] as number, [block]);
      }
      path.push(block);
      at = block;
    }
    for (let index = path.length - 1; index >= 0; index--) this.#refresh(path[index] as Block);
    const last = path.at(-1);
    return last?.tokens.length === count - (path.length - 1) * pageTokens ? last : undefined;
  }

  /** Frees the least recently used unused page, leaves first; returns false when every page is in use. */
  evict(): boolean {
    if (this.#pool.cached === 0) return false;
    for (const block of this.#byAge) {
      if (block.children.size === 0 && this.#pool.users(block.page) === 0) {
        this.#remove(block);
        return true;
      }
    }
    // Only unused pages with descendants in use are left. Sequences that use the descendants have their own copies of
    // these pages.
    for (const block of this.#byAge) {
      if (this.#pool.users(block.page) === 0) {
        this.#remove(block);
        return true;
      }
    }
    return false;
  }

  #refresh(block: Block): void {
    this.#byAge.delete(block);
    this.#byAge.add(block);
  }

  /** Removes a block and its descendants, which can no longer be reached. */
  #remove(block: Block): void {
    const key = block.tokens[0] as number;
    const siblings = block.parent?.children.get(key) ?? [];
    if (siblings.length === 1) block.parent?.children.delete(key);
    else siblings.splice(siblings.indexOf(block), 1);
    const gone = [block];
    for (let one = gone.pop(); one; one = gone.pop()) {
      this.#byAge.delete(one);
      this.#pool.forget(one.page);
      this.#onGone(one);
      for (const children of one.children.values()) gone.push(...children);
    }
  }
}

/** The child with the longest common prefix with `tokens` from `first` on, and its length, at most `limit`. */
function closest(
  parent: Block,
  tokens: readonly number[],
  first: number,
  limit: number,
): { block: Block; length: number } | undefined {
  let best: Block | undefined;
  let most = 0;
  for (const block of parent.children.get(tokens[first] as number) ?? []) {
    const end = Math.min(limit, block.tokens.length);
    let length = 1;
    while (length < end && block.tokens[length] === tokens[first + length]) length++;
    if (length > most) {
      best = block;
      most = length;
    }
  }
  return best && { block: best, length: most };
}
