import type { Clock } from '../../clock.ts';
import { waitForChange } from '../../wait-for-change.ts';

/** What people ask of a live run, and a way to wait for it. It is in the database before it is here. */
export class Orders {
  /** To happen at the next step boundary. */
  pause: boolean;
  /** Who asked. */
  cancel: string | undefined;
  readonly #clock: Clock;
  readonly #checkMs: number;
  #change = Promise.withResolvers<void>();
  readonly #listeners = new Set<() => void>();

  constructor(
    asked: { readonly pause: boolean; readonly cancel: string | undefined },
    clock: Clock,
    checkMs: number,
  ) {
    this.pause = asked.pause;
    this.cancel = asked.cancel;
    this.#clock = clock;
    this.#checkMs = checkMs;
  }

  /** Something is different; who waits looks again. */
  tell(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
    for (const listener of this.#listeners) listener();
  }

  /** Hears of every change, until it is called off. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Waits until it holds, or for some milliseconds: whether it holds. Rejects with the signal's reason. How long it
   * takes is not counted with the wall clock.
   */
  async until(holds: () => boolean, ms: number | undefined, signal: AbortSignal): Promise<boolean> {
    const end = ms === undefined ? undefined : this.#clock.monotonic() + ms;
    for (;;) {
      signal.throwIfAborted();
      if (holds()) return true;
      const left = end === undefined ? undefined : end - this.#clock.monotonic();
      if (left !== undefined && left <= 0) return false;
      await waitForChange(this.#change.promise, Math.min(left ?? this.#checkMs, this.#checkMs), signal);
    }
  }
}
