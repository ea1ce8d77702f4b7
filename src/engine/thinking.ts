import { raceTimeout } from '../util/race-timeout.ts';
import type { Sequence } from './sequence.ts';

/** Time that steps may wait for a sequence's constraint. All sequences in the step wait with it. */
export interface ConstraintLimits {
  /** Maximum wait budget. */
  readonly patienceMs: number;
  /** Budget regained for each output token. */
  readonly regainMs: number;
}

const usualLimits: ConstraintLimits = { patienceMs: 100, regainMs: 10 };

/** Sequences whose constraints are slow: they hold no GPU resources until their mask is available. */
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

  /** Waits for `ready` within the sequence's remaining budget; returns false when it took longer. */
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

  /**
   * Waits until the sequence's constraint has answered or failed. @returns false when the sequence was removed
   * meanwhile
   */
  async wait(sequence: Sequence): Promise<boolean> {
    this.#thinking.add(sequence);
    await Promise.allSettled([sequence.asked?.mask]);
    return this.remove(sequence);
  }

  /** Returns false when the sequence was not waiting. */
  remove(sequence: Sequence): boolean {
    return this.#thinking.delete(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    const all = [...this.#thinking];
    this.#thinking.clear();
    return all;
  }
}
