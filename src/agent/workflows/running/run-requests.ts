import type { Clock } from '../../clock.ts';
import { waitForChange } from '../../wait-for-change.ts';

/** Pause and cancel requests of a live run, and waiting for them. They are stored in the database first. */
export class RunRequests {
  /** Pause at the next step boundary. */
  pause: boolean;
  /** Who requested cancellation. */
  cancel: string | undefined;
  readonly #clock: Clock;
  readonly #checkMs: number;
  #change = Promise.withResolvers<void>();
  readonly #listeners = new Set<() => void>();

  constructor(
    initial: { readonly pause: boolean; readonly cancel: string | undefined },
    clock: Clock,
    checkMs: number,
  ) {
    this.pause = initial.pause;
    this.cancel = initial.cancel;
    this.#clock = clock;
    this.#checkMs = checkMs;
  }

  /** Notifies waiters and listeners of a change. */
  notify(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
    for (const listener of this.#listeners) listener();
  }

  /** Adds a listener for changes. @returns a function that removes it */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Waits until `holds` returns true, at most `ms` milliseconds by the monotonic clock. Rejects with the signal's
   * reason.
   * @returns whether it holds
   */
  async waitUntil(holds: () => boolean, ms: number | undefined, signal: AbortSignal): Promise<boolean> {
    const endMs = ms === undefined ? undefined : this.#clock.monotonic() + ms;
    for (;;) {
      signal.throwIfAborted();
      if (holds()) return true;
      const leftMs = endMs === undefined ? undefined : endMs - this.#clock.monotonic();
      if (leftMs !== undefined && leftMs <= 0) return false;
      await waitForChange(this.#change.promise, Math.min(leftMs ?? this.#checkMs, this.#checkMs), signal);
    }
  }
}
