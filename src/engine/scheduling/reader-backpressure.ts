import type { Sequence } from './sequence.ts';
import { EngineError } from '../types.ts';

/** Limits of how far a sequence may run ahead of its reader. */
export interface ReaderLimits {
  /** Output tokens that may be unread; beyond that, the sequence is paused. */
  readonly unreadTokens: number;
  /** How long a paused sequence waits for its reader before it fails. */
  readonly timeoutMs: number;
}

const defaultLimits: ReaderLimits = { unreadTokens: 512, timeoutMs: 60_000 };

/**
 * Backpressure: sequences paused because their reader is slow. They hold no GPU resources until the reader has caught
 * up.
 */
export class ReaderBackpressure {
  readonly #limits: ReaderLimits;
  readonly #paused = new Map<Sequence, ReturnType<typeof setTimeout>>();
  readonly #onResume: (sequence: Sequence) => void;
  readonly #onTimeout: (sequence: Sequence, reason: EngineError) => void;

  /** @param callbacks called after a sequence was removed from this set */
  constructor(
    limits: Partial<ReaderLimits>,
    callbacks: {
      /** The reader has read more than half of the unread tokens, so the sequence can resume. */
      onResume: (sequence: Sequence) => void;
      /** The reader has read nothing for too long. */
      onTimeout: (sequence: Sequence, reason: EngineError) => void;
    },
  ) {
    this.#limits = { ...defaultLimits, ...limits };
    this.#onResume = callbacks.onResume;
    this.#onTimeout = callbacks.onTimeout;
  }

  get size(): number {
    return this.#paused.size;
  }

  isReaderBehind({ unreadTokens }: Sequence): boolean {
    return unreadTokens > this.#limits.unreadTokens;
  }

  add(sequence: Sequence): void {
    const { timeoutMs, unreadTokens } = this.#limits;
    const expire = () => {
      this.remove(sequence);
      const message = `${sequence.unreadTokens} output tokens were not read within ${timeoutMs / 1000} s`;
      this.#onTimeout(
        sequence,
        new EngineError('reader_stalled', `${message}; read the stream faster, or request fewer tokens`),
      );
    };
    const startTimer = () => this.#paused.set(sequence, setTimeout(expire, timeoutMs));
    startTimer();
    sequence.onRead = () => {
      if (sequence.unreadTokens * 2 >= unreadTokens && sequence.unreadTokens > 0) {
        clearTimeout(this.#paused.get(sequence));
        startTimer();
        return;
      }
      this.remove(sequence);
      this.#onResume(sequence);
    };
  }

  /** Returns false when the sequence was not paused. */
  remove(sequence: Sequence): boolean {
    const timer = this.#paused.get(sequence);
    clearTimeout(timer);
    sequence.onRead = undefined;
    return this.#paused.delete(sequence);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    const all = [...this.#paused.keys()];
    for (const sequence of all) this.remove(sequence);
    return all;
  }
}
