/**
 * Upstream answers that are read to the end, for their usage, after the caller disconnected. Each keeps a provider
 * connection and a hold, and does not count against its key's concurrency. A key has at most as many of them as concurrent
 * requests. Beyond that the oldest is aborted and settled by an estimate of what was read.
 */
export class UpstreamDrains {
  readonly #byKey = new Map<string, Set<() => void>>();

  /**
   * @param maxPerKey answers of the key that are read at the same time
   * @returns removes the answer; may be called more than once
   */
  add(keyId: string, abort: () => void, maxPerKey: number): () => void {
    const drains = this.#byKey.get(keyId) ?? new Set();
    this.#byKey.set(keyId, drains);
    drains.add(abort);
    const [oldest] = drains;
    if (drains.size > maxPerKey && oldest) {
      drains.delete(oldest);
      oldest();
    }
    return () => {
      drains.delete(abort);
      if (drains.size === 0 && this.#byKey.get(keyId) === drains) this.#byKey.delete(keyId);
    };
  }
}
