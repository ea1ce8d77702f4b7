import { raceTimeout } from '../util/race-timeout.ts';
import type { Sequence } from './sequence.ts';

/** How long steps wait for the constraint of an answer, and with them all other answers that share them. */
export interface ConstraintLimits {
  /** Altogether, before it is as good as used up. */
  readonly patienceMs: number;
  /** What each token of the answer gives back of it. */
  readonly regainMs: number;
}

const usualLimits: ConstraintLimits = { patienceMs: 100, regainMs: 10 };

/** Sequences whose constraints take long: they hold nothing on the GPU until they are told what may follow. */
export class Thinking {
  readonly #limits: ConstraintLimits;
  readonly #now: () => number;
  readonly #thinking = new Set<Sequence>();
  readonly #left = new WeakMap<Sequence, number>();

  constructor(limits: Partial<ConstraintLimits>, now: () => number) {
    this.#limits = { ...usualLimits, ...limits };
    this.#now = now;
  }

  get size(): number {
    return this.#thinking.size;
  }

  /** False when `ready` did not come in the time that the sequence may take from others. */
  async inTime(sequence: Sequence, ready: Promise<void>): Promise<boolean> {
    const { patienceMs, regainMs } = this.#limits;
    const allowed = Math.min(patienceMs, (this.#left.get(sequence) ?? patienceMs) + regainMs);
    const began = this.#now();
    try {
      return (await raceTimeout(ready, allowed)) !== 'late';
    } finally {
      this.#left.set(sequence, Math.max(0, allowed - (this.#now() - began)));
    }
  }

  /** Until its constraint has answered, with a mask or a failure. @returns false when it was removed meanwhile */
  async wait(sequence: Sequence): Promise<boolean> {
    this.#thinking.add(sequence);
    await Promise.allSettled([sequence.asked?.mask]);
    return this.remove(sequence);
  }

  /** False when it was not here. */
  remove(sequence: Sequence): boolean {
    return this.#thinking.delete(sequence);
  }

  /** Removes all of them. */
  clear(): Sequence[] {
    const all = [...this.#thinking];
    this.#thinking.clear();
    return all;
  }
}
