import type { Block } from './prefix-cache.ts';

/** A copy of all layers' states from a slot to a retained copy, or back, before the step runs. */
export interface StateCopy {
  readonly kind: 'keep' | 'restore';
  readonly slot: number;
  readonly place: number;
}

/**
 * Retained layer states at the ends of some cached prefixes. A state cannot be rolled back, so a sequence can only
 * continue from a prefix whose state was retained. This class only does the bookkeeping: it returns the copies to
 * make.
 */
export class KeptStates {
  /** Number of states that can be retained. */
  readonly total: number;
  readonly #free: number[];
  /** Index of the retained state of each block, least recently used first. */
  readonly #owners = new Map<Block, number>();
  /** Copies to make, with the step after which each is due. */
  #due: { readonly copy: StateCopy; readonly step: number }[] = [];

  constructor(places: number) {
    this.total = places;
    this.#free = Array.from({ length: places }, (_, index) => places - 1 - index);
  }

  get size(): number {
    return this.#owners.size;
  }

  /** Retains the state that a slot has after a step as the state at the end of a block. */
  keep(block: Block, slot: number, step: number): void {
    const known = this.#owners.get(block);
    if (known !== undefined) return this.touch(block);
    const place = this.#free.pop() ?? this.#takeOldest();
    if (place === undefined) return;
    this.#owners.set(block, place);
    block.stateStep = step;
    this.#due.push({ copy: { kind: 'keep', slot, place }, step });
  }

  /** Index of the retained state at the end of a block, if it is written before the step being formed. */
  placeOf(block: Block, step: number): number | undefined {
    return (block.stateStep ?? step) < step ? this.#owners.get(block) : undefined;
  }

  /** Marks the block's state as most recently used. */
  touch(block: Block): void {
    const place = this.#owners.get(block);
    if (place === undefined) return;
    this.#owners.delete(block);
    this.#owners.set(block, place);
  }

  /** Releases the state of a block that was removed or replaced. */
  forget(block: Block): void {
    const place = this.#owners.get(block);
    if (place === undefined) return;
    this.#owners.delete(block);
    delete block.stateStep;
    this.#free.push(place);
  }

  /** Returns the copies to make before a step, in order. */
  takeDue(step: number): StateCopy[] {
    const due = this.#due.filter((one) => one.step < step);
    this.#due = this.#due.filter((one) => one.step >= step);
    return due.map(({ copy }) => copy);
  }

  #takeOldest(): number | undefined {
    const [oldest] = this.#owners;
    if (!oldest) return undefined;
    this.forget(oldest[0]);
    return this.#free.pop();
  }
}
