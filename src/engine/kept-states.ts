import type { Block } from './prefix-cache.ts';

/** Before the step runs, the states of all layers are copied from a slot to a kept place, or from there to a slot. */
export interface StateCopy {
  readonly kind: 'keep' | 'restore';
  readonly slot: number;
  readonly place: number;
}

/**
 * States of layers at the ends of some cached beginnings of texts, by the places they lie in. What is behind a state
 * cannot be taken out of it again, so a text can go on only where one was kept. Pure: it names copies.
 */
export class KeptStates {
  /** Places there are. */
  readonly total: number;
  readonly #free: number[];
  /** Whose end it is, the one used longest ago first. */
  readonly #owners = new Map<Block, number>();
  /** Copies, and the step behind which each is to be made. */
  #due: { readonly copy: StateCopy; readonly step: number }[] = [];

  constructor(places: number) {
    this.total = places;
    this.#free = Array.from({ length: places }, (_, index) => places - 1 - index);
  }

  get size(): number {
    return this.#owners.size;
  }

  /** The state of a slot behind a step is kept as that after a block. */
  keep(block: Block, slot: number, step: number): void {
    const known = this.#owners.get(block);
    if (known !== undefined) return this.touch(block);
    const place = this.#free.pop() ?? this.#takeOldest();
    if (place === undefined) return;
    this.#owners.set(block, place);
    block.stateStep = step;
    this.#due.push({ copy: { kind: 'keep', slot, place }, step });
  }

  /** The place of the state after a block, if it was written before the step that is being formed. */
  placeOf(block: Block, step: number): number | undefined {
    return (block.stateStep ?? step) < step ? this.#owners.get(block) : undefined;
  }

  /** Makes it the youngest. */
  touch(block: Block): void {
    const place = this.#owners.get(block);
    if (place === undefined) return;
    this.#owners.delete(block);
    this.#owners.set(block, place);
  }

  /** The block is gone, or it is another one now. */
  forget(block: Block): void {
    const place = this.#owners.get(block);
    if (place === undefined) return;
    this.#owners.delete(block);
    delete block.stateStep;
    this.#free.push(place);
  }

  /** What is to be copied before a step, in this order. */
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
