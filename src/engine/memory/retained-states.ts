import type { PrefixBlock } from './prefix-cache.ts';

/** A copy of all layers' states from a slot to a retained copy, or back, before the step runs. */
export interface StateCopy {
  readonly kind: 'save' | 'restore';
  readonly slot: number;
  readonly retainedIndex: number;
}

/**
 * Retained layer states at the ends of some cached prefixes. A state cannot be rolled back, so a sequence can only
 * continue from a prefix whose state was retained. This class only does the bookkeeping: it returns the copies to
 * make.
 */
export class RetainedStates {
  /** Number of states that can be retained. */
  readonly capacity: number;
  readonly #freeIndexes: number[];
  /** Index of the retained state of each block, least recently used first. */
  readonly #indexByBlock = new Map<PrefixBlock, number>();
  /** Copies to make, with the step after which each is due. */
  #pendingCopies: { readonly copy: StateCopy; readonly step: number }[] = [];

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#freeIndexes = Array.from({ length: capacity }, (_, index) => capacity - 1 - index);
  }

  get size(): number {
    return this.#indexByBlock.size;
  }

  /** Retains the state that a slot has after a step as the state at the end of a block. */
  retain(block: PrefixBlock, slot: number, step: number): void {
    const known = this.#indexByBlock.get(block);
    if (known !== undefined) return this.touch(block);
    const retainedIndex = this.#freeIndexes.pop() ?? this.#evictOldest();
    if (retainedIndex === undefined) return;
    this.#indexByBlock.set(block, retainedIndex);
    block.stateStep = step;
    this.#pendingCopies.push({ copy: { kind: 'save', slot, retainedIndex }, step });
  }

  /** Index of the retained state at the end of a block, if it is written before the step being formed. */
  retainedIndexOf(block: PrefixBlock, step: number): number | undefined {
    return (block.stateStep ?? step) < step ? this.#indexByBlock.get(block) : undefined;
  }

  /** Marks the block's state as most recently used. */
  touch(block: PrefixBlock): void {
    const retainedIndex = this.#indexByBlock.get(block);
    if (retainedIndex === undefined) return;
    this.#indexByBlock.delete(block);
    this.#indexByBlock.set(block, retainedIndex);
  }

  /** Releases the state of a block that was removed or replaced. */
  forget(block: PrefixBlock): void {
    const retainedIndex = this.#indexByBlock.get(block);
    if (retainedIndex === undefined) return;
    this.#indexByBlock.delete(block);
    delete block.stateStep;
    this.#freeIndexes.push(retainedIndex);
  }

  /** Returns the copies to make before a step, in order. */
  takeDueCopies(step: number): StateCopy[] {
    const dueCopies = this.#pendingCopies.filter((one) => one.step < step);
    this.#pendingCopies = this.#pendingCopies.filter((one) => one.step >= step);
    return dueCopies.map(({ copy }) => copy);
  }

  #evictOldest(): number | undefined {
    const [oldest] = this.#indexByBlock;
    if (!oldest) return undefined;
    this.forget(oldest[0]);
    return this.#freeIndexes.pop();
  }
}
