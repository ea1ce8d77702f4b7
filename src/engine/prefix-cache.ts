import { pageTokens } from '../../kernels/rope-kv-write.ts';
import type { PagePool } from './page-pool.ts';

/** A page whose keys and values are those of `tokens`, after all that its ancestors hold. */
export interface Block {
  /** As many as a page holds, or fewer in a leaf. */
  tokens: readonly number[];
  page: number;
  /** The step that writes the last of them. */
  step: number;
  /** The step behind which the layers' states were kept, where they were. */
  stateStep?: number;
  readonly parent: Block | undefined;
  /** By their first token. */
  readonly children: Map<number, Block[]>;
}

/** What of a text is cached: whole pages from its start, then a part of one more. */
export interface Match {
  readonly blocks: readonly Block[];
  readonly part: { readonly block: Block; readonly length: number } | undefined;
}

/**
 * A radix tree over pages of tokens: which pages hold the keys and values of which beginnings of texts. It keeps
 * pages when no sequence uses them any more, until `evict` is asked for their place.
 */
export class PrefixCache {
  readonly #pool: PagePool;
  /** Told of blocks that are gone, or that have become others. */
  readonly #onGone: (block: Block) => void;
  readonly #root: Block = { tokens: [], page: -1, step: 0, parent: undefined, children: new Map() };
  /** Every block, the one used longest ago first. */
  readonly #byAge = new Set<Block>();

  constructor(pool: PagePool, onGone: (block: Block) => void = () => {}) {
    this.#pool = pool;
    this.#onGone = onGone;
  }

  /** Pages it keeps, used or not. */
  get size(): number {
    return this.#byAge.size;
  }

  /** The longest cached beginning of `tokens`, at most `limit` of them. */
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

  /** Makes what was matched the youngest. */
  touch({ blocks, part }: Match): void {
    if (part) this.#refresh(part.block);
    // The beginning last: it is of use to more texts than what follows.
    for (let index = blocks.length - 1; index >= 0; index--) this.#refresh(blocks[index] as Block);
  }

  /**
   * Keeps the pages of the first `count` tokens; where such a page is kept already, that one stays.
   * @param pages in use, by position
   * @param step the last that writes to them
   * @returns the block that ends with them, when one does
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
        // The same text goes on here: the longer page takes the shorter one's place.
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

  /** Lets go of the cached page that was used longest ago, ends of texts first; false when there is none. */
  evict(): boolean {
    if (this.#pool.cached === 0) return false;
    for (const block of this.#byAge) {
      if (block.children.size === 0 && this.#pool.users(block.page) === 0) {
        this.#remove(block);
        return true;
      }
    }
    // What is left unused stands before pages in use, whose sequences have copies of their own of it.
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

  /** With all that follows it: nothing else leads there. */
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

/** The child that has most tokens in common with `tokens` from `first` on, and how many; at most `limit`. */
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
