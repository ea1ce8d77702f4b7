import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import type { PagePool } from './page-pool.ts';

/** A page of the prefix cache. Its keys and values are those of `tokens` after the tokens of all ancestors. */
export interface PrefixBlock {
  /** A full page of tokens; leaves may have fewer. */
  tokens: readonly number[];
  page: number;
  /** Number of the step that writes the last of these tokens. */
  step: number;
  /** Number of the step after which the layer states were retained, if they were. */
  stateStep?: number;
  readonly parent: PrefixBlock | undefined;
  /** Child blocks, by their first token. */
  readonly children: Map<number, PrefixBlock[]>;
}

/** The cached prefix of a text: whole pages from its start, then a part of one more page. */
export interface PrefixMatch {
  readonly blocks: readonly PrefixBlock[];
  readonly partial: { readonly block: PrefixBlock; readonly length: number } | undefined;
}

/**
 * A radix tree over pages of tokens. It records which pages hold the keys and values of which prefixes, and keeps
 * pages that no sequence uses until `evict` frees them.
 */
export class PrefixCache {
  readonly #pool: PagePool;
  /** Called with blocks that were removed or whose content was replaced. */
  readonly #onRemoved: (block: PrefixBlock) => void;
  readonly #root: PrefixBlock = { tokens: [], page: -1, step: 0, parent: undefined, children: new Map() };
  /** All blocks, least recently used first. */
  readonly #blocksByAge = new Set<PrefixBlock>();

  constructor(pool: PagePool, onRemoved: (block: PrefixBlock) => void = () => {}) {
    this.#pool = pool;
    this.#onRemoved = onRemoved;
  }

  /** Number of pages, whether in use or not. */
  get size(): number {
    return this.#blocksByAge.size;
  }

  /** Finds the longest cached prefix of `tokens`, at most `limit` tokens. */
  match(tokens: readonly number[], limit: number): PrefixMatch {
    const blocks: PrefixBlock[] = [];
    let node = this.#root;
    let partial: PrefixMatch['partial'];
    for (let first = 0; first < limit; first += pageTokens) {
      const best = closestChild(node, tokens, first, Math.min(pageTokens, limit - first));
      if (!best) break;
      if (best.length < pageTokens) {
        partial = best;
        break;
      }
      node = best.block;
      blocks.push(node);
    }
    return { blocks, partial };
  }

  /** Marks the matched blocks as most recently used. */
  touch({ blocks, partial }: PrefixMatch): void {
    if (partial) this.#refresh(partial.block);
    // Refresh the start of the text last: more texts can reuse it than what follows it.
    for (let index = blocks.length - 1; index >= 0; index--) this.#refresh(blocks[index] as PrefixBlock);
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
  ): PrefixBlock | undefined {
    const path: PrefixBlock[] = [];
    let node = this.#root;
    for (let first = 0; first < count; first += pageTokens) {
      const length = Math.min(pageTokens, count - first);
      const page = pages[first / pageTokens] as number;
      const best = closestChild(node, tokens, first, length);
      let block: PrefixBlock;
      if (best?.length === length) {
        block = best.block;
      } else if (best && best.length === best.block.tokens.length) {
        // The existing page holds a prefix of these tokens: the longer page replaces it.
        block = best.block;
        this.#pool.retain(page);
        this.#pool.release(block.page);
        this.#onRemoved(block);
        Object.assign(block, { page, step, tokens: tokens.slice(first, first + length) });
      } else {
        this.#pool.retain(page);
        block = {
          tokens: tokens.slice(first, first + length),
          page,
          step,
          parent: node,
          children: new Map(),
        };
        const siblings = node.children.get(tokens[first] as number);
        if (siblings) siblings.push(block);
        else node.children.set(tokens[first] as number, [block]);
      }
      path.push(block);
      node = block;
    }
    for (let index = path.length - 1; index >= 0; index--) this.#refresh(path[index] as PrefixBlock);
    const last = path.at(-1);
    return last?.tokens.length === count - (path.length - 1) * pageTokens ? last : undefined;
  }

  /** Frees the least recently used unused page, leaves first; returns false when every page is in use. */
  evict(): boolean {
    if (this.#pool.cached === 0) return false;
    for (const block of this.#blocksByAge) {
      if (block.children.size === 0 && this.#pool.users(block.page) === 0) {
        this.#remove(block);
        return true;
      }
    }
    // Only unused pages with descendants in use are left. Sequences that use the descendants have their own copies of
    // these pages.
    for (const block of this.#blocksByAge) {
      if (this.#pool.users(block.page) === 0) {
        this.#remove(block);
        return true;
      }
    }
    return false;
  }

  /** Removes every page, also those in use. */
  clear(): void {
    const blocks = Array.from(this.#root.children.values()).flat();
    for (const block of blocks) this.#remove(block);
  }

  #refresh(block: PrefixBlock): void {
    this.#blocksByAge.delete(block);
    this.#blocksByAge.add(block);
  }

  /** Removes a block and its descendants, which can no longer be reached. */
  #remove(block: PrefixBlock): void {
    const key = block.tokens[0] as number;
    const siblings = block.parent?.children.get(key) ?? [];
    if (siblings.length === 1) block.parent?.children.delete(key);
    else siblings.splice(siblings.indexOf(block), 1);
    const removed = [block];
    for (let one = removed.pop(); one; one = removed.pop()) {
      this.#blocksByAge.delete(one);
      this.#pool.release(one.page);
      this.#onRemoved(one);
      for (const children of one.children.values()) removed.push(...children);
    }
  }
}

/** The child with the longest common prefix with `tokens` from `first` on, and its length, at most `limit`. */
function closestChild(
  parent: PrefixBlock,
  tokens: readonly number[],
  first: number,
  limit: number,
): { block: PrefixBlock; length: number } | undefined {
  let best: PrefixBlock | undefined;
  let longest = 0;
  for (const block of parent.children.get(tokens[first] as number) ?? []) {
    const end = Math.min(limit, block.tokens.length);
    let length = 1;
    while (length < end && block.tokens[length] === tokens[first + length]) length++;
    if (length > longest) {
      best = block;
      longest = length;
    }
  }
  return best && { block: best, length: longest };
}
