import type { Sequence } from './sequence.ts';
import { EngineError } from './types.ts';

/** How far an answer may be ahead of its reader. */
export interface ReaderLimits {
  /** Answer tokens that may wait to be read; with more of them its sequence is parked. */
  readonly unreadTokens: number;
  /** How long nothing of a parked sequence may be read. */
  readonly patienceMs: number;
}

const usualLimits: ReaderLimits = { unreadTokens: 512, patienceMs: 60_000 };

/** Sequences whose readers are slow: they hold nothing on the GPU, and wait until the reader has caught up. */
export class Parking {
  readonly #limits: ReaderLimits;
  readonly #parked = new Map<Sequence, ReturnType<typeof setTimeout>>();
  readonly #leave: (sequence: Sequence) => void;
  readonly #drop: (sequence: Sequence, reason: EngineError) => void;

  /** What becomes of a parked sequence, which is not parked any more then. */
  constructor(
    limits: Partial<ReaderLimits>,
    to: {
      /** Its reader has read more than half. */
      leave: (sequence: Sequence) => void;
      /** Its reader has read nothing for too long. */
      drop: (sequence: Sequence, reason: EngineError) => void;
    },
  ) {
    this.#limits = { ...usualLimits, ...limits };
    this.#leave = to.leave;
    this.#drop = to.drop;
  }

  get size(): number {
    return this.#parked.size;
  }

  isDue({ unread }: Sequence): boolean {
    return unread > this.#limits.unreadTokens;
  }

  add(sequence: Sequence): void {
    const { patienceMs, unreadTokens } = this.#limits;
    const late = () => {
      this.remove(sequence);
      const waited = `${sequence.unread} tokens of the answer waited ${patienceMs / 1000} s to be read`;
      this.#drop(
        sequence,
        new EngineError('reader_stalled', `${waited}; the reader must be faster, or ask for less`),
      );
    };
    const wait = () => this.#parked.set(sequence, setTimeout(late, patienceMs));
    wait();
    sequence.onRead = () => {
      if (sequence.unread * 2 >= unreadTokens && sequence.unread > 0) {
        clearTimeout(this.#parked.get(sequence));
        wait();
        return;
      }
      this.remove(sequence);
      this.#leave(sequence);
    };
  }

  /** False when it was not parked. */
  remove(sequence: Sequence): boolean {
    const timer = this.#parked.get(sequence);
    clearTimeout(timer);
    sequence.onRead = undefined;
    return this.#parked.delete(sequence);
  }

  /** Removes all of them. */
  clear(): Sequence[] {
    const all = [...this.#parked.keys()];
    for (const sequence of all) this.remove(sequence);
    return all;
  }
}
