/**
 * Answers that are read to their end for callers that left: each keeps a connection to a provider and a hold, and none of
 * them counts against its key's concurrency. A key has at most as many as it may have requests under way; beyond that the
 * oldest is given up, and settled by what was seen of it.
 */
export class Drains {
  readonly #most: number;
  readonly #ofKeys = new Map<string, Set<() => void>>();

  /** @param most of a key */
  constructor(most: number) {
    this.#most = most;
  }

  /** @returns ends it; called once or more */
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
