import { raceTimeout } from '../../util/race-timeout.ts';
import type { Sequence } from './sequence.ts';

/** Time that steps may wait for a sequence's constraint. All sequences in the step wait with it. */
export interface ConstraintLimits {
  /** Maximum wait budget. */
  readonly budgetMs: number;
  /** Budget regained for each output token. */
  readonly regainMsPerToken: number;
}

const defaultLimits: ConstraintLimits = { budgetMs: 100, regainMsPerToken: 10 };

/** Sequences whose constraints are slow: they hold no GPU resources until their mask is available. */
export class MaskWaitList {
  readonly #limits: ConstraintLimits;
  readonly #now: () => number;
  readonly #waiting = new Set<Sequence>();
  readonly #remainingMs = new WeakMap<Sequence, number>();

  constructor(limits: Partial<ConstraintLimits>, now: () => number) {
    this.#limits = { ...defaultLimits, ...limits };
    this.#now = now;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Waits for `ready` within the sequence's remaining budget; returns false when it took longer. */
  async finishesInTime(sequence: Sequence, ready: Promise<void>): Promise<boolean> {
    const { budgetMs, regainMsPerToken } = this.#limits;
    const allowedMs = Math.min(budgetMs, (this.#remainingMs.get(sequence) ?? budgetMs) + regainMsPerToken);
    const startedAt = this.#now();
    try {
      return (await raceTimeout(ready, allowedMs)) !== 'late';
    } finally {
      this.#remainingMs.set(sequence, Math.max(0, allowedMs - (this.#now() - startedAt)));
    }
  }

  /**
   * Waits until the sequence's constraint has answered or failed. @returns false when the sequence was removed
   * meanwhile
   */
  async wait(sequence: Sequence): Promise<boolean> {
    this.#waiting.add(sequence);
    await Promise.allSettled([sequence.masks.latest]);
    return this.remove(sequence);
  }

  /** Returns false when the sequence was not waiting. */
  remove(sequence: Sequence): boolean {
    return this.#waiting.delete(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    return all;
  }
}
