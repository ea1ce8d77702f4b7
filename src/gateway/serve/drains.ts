/**
 * Upstream answers that are read to the end, for their usage, after the caller disconnected. Each keeps a provider
 * connection and a hold, and does not count against its key's concurrency. A key has at most as many of them as concurrent
 * requests. Beyond that the oldest is aborted and settled by an estimate of what was read.
 */
export class Drains {
  readonly #most: number;
  readonly #ofKeys = new Map<string, Set<() => void>>();

  /** @param maxPerKey answers of one key that are read at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  /** @returns removes the answer; may be called more than once */
  add(keyId: string, giveUp: () => void): () => void {
    const drains = this.#ofKeys.get(keyId) ?? new Set();
    this.#ofKeys.set(keyId, drains);
    drains.add(giveUp);
    const [oldest] = drains;
    if (drains.size > this.#most && oldest) {
      drains.delete(oldest);
      oldest();
    }
    return () => {
      drains.delete(giveUp);
      if (drains.size === 0 && this.#ofKeys.get(keyId) === drains) this.#ofKeys.delete(keyId);
    };
  }
}
