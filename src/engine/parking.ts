import type { Sequence } from './sequence.ts';
import { EngineError } from './types.ts';

/** Limits of how far a sequence may run ahead of its reader. */
export interface ReaderLimits {
  /** Output tokens that may be unread; beyond that, the sequence is paused. */
  readonly unreadTokens: number;
  /** How long a paused sequence waits for its reader before it fails. */
  readonly patienceMs: number;
}

const usualLimits: ReaderLimits = { unreadTokens: 512, patienceMs: 60_000 };

/**
 * Backpressure: sequences paused because their reader is slow. They hold no GPU resources until the reader has caught
 * up.
 */
export class Parking {
  readonly #limits: ReaderLimits;
  readonly #parked = new Map<Sequence, ReturnType<typeof setTimeout>>();
  readonly #leave: (sequence: Sequence) => void;
  readonly #drop: (sequence: Sequence, reason: EngineError) => void;

  /** @param callbacks called after a sequence was removed from this set */
  constructor(
    limits: Partial<ReaderLimits>,
    to: {
      /** The reader has read more than half of the unread tokens, so the sequence can resume. */
      leave: (sequence: Sequence) => void;
      /** The reader has read nothing for too long. */
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
      const waited = `${sequence.unread} output tokens were not read within ${patienceMs / 1000} s`;
      this.#drop(
        sequence,
        new EngineError('reader_stalled', `${waited}; read the stream faster, or request fewer tokens`),
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

  /** Returns false when the sequence was not paused. */
  remove(sequence: Sequence): boolean {
    const timer = this.#parked.get(sequence);
    clearTimeout(timer);
    sequence.onRead = undefined;
    return this.#parked.delete(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    const all = [...this.#parked.keys()];
    for (const sequence of all) this.remove(sequence);
    return all;
  }
}
