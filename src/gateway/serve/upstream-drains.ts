import type { Limits } from '../config/types.ts';

/**
 * Upstream answers that are read to the end, for their usage, after the caller disconnected. Each keeps a provider
 * connection and a hold, and does not count against its key's concurrency. A key has at most as many of them as concurrent
 * requests. Beyond that the oldest is aborted and settled by an estimate of what was read.
 */
export class UpstreamDrains {
  readonly #limits: Pick<Limits, 'concurrency'>;
  readonly #byKey = new Map<string, Set<() => void>>();

  /** @param limits answers of one key that are read at the same time; read at each use, because a reload may change it */
  constructor(limits: Pick<Limits, 'concurrency'>) {
    this.#limits = limits;
  }

  /** @returns removes the answer; may be called more than once */
  add(keyId: string, abort: () => void): () => void {
    const drains = this.#byKey.get(keyId) ?? new Set();
    this.#byKey.set(keyId, drains);
    drains.add(abort);
    const [oldest] = drains;
    if (drains.size > this.#limits.concurrency && oldest) {
      drains.delete(oldest);
      oldest();
    }
    return () => {
      drains.delete(abort);
      if (drains.size === 0 && this.#byKey.get(keyId) === drains) this.#byKey.delete(keyId);
    };
  }
}
