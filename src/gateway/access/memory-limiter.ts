import { type KeyLimits, limitError, createPermit } from './limits.ts';
import { takeRequest, requestRateOf } from './request-rate.ts';
import type { Limiter } from './types.ts';

/** A limiter in memory: each gateway process applies the limits on its own. */
export function createMemoryLimiter(
  limits: KeyLimits,
  monotonicMs = (): number => performance.now(),
): Limiter {
  /** Ordered by last use. */
  const keys = new Map<string, { running: number; fullAt: number }>();

  /** Removes idle keys: checks two keys for every request, which is faster than new keys are added. */
  function removeIdle(now: number): void {
    let remainingChecks = 2;
    for (const [id, key] of keys) {
      if (remainingChecks-- === 0) return;
      keys.delete(id);
      if (key.running > 0 || key.fullAt > now) keys.set(id, key);
    }
  }

  return {
    async acquire({ key: { id } }) {
      const now = Math.floor(monotonicMs() * 1000);
      removeIdle(now);
      const key = keys.get(id) ?? { running: 0, fullAt: 0 };
      keys.delete(id);
      keys.set(id, key);
      if (key.running >= limits.concurrency) throw limitError('concurrency', limits);
      const fullAt = takeRequest(requestRateOf(limits.requestsPerMinute), key.fullAt, now);
      if (fullAt === undefined) throw limitError('rate', limits);
      key.fullAt = fullAt;
      key.running++;
      return createPermit(() => {
        key.running--;
      });
    },
  };
}
