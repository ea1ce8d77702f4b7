import { type KeyLimits, limitReached, placeOf } from './limits.ts';
import { draw, paceOf } from './pace.ts';
import type { Limiter } from './types.ts';

/** A limiter in memory: each gateway process applies the limits on its own. */
export function memoryLimiter(limits: KeyLimits, monotonic = (): number => performance.now()): Limiter {
  const pace = paceOf(limits.requestsPerMinute);
  /** Ordered by last use. */
  const keys = new Map<string, { running: number; fullAt: number }>();

  /** Removes idle keys: checks two keys for every request, which is faster than new keys are added. */
  function forgetIdle(now: number): void {
    let looks = 2;
    for (const [id, key] of keys) {
      if (looks-- === 0) return;
      keys.delete(id);
      if (key.running > 0 || key.fullAt > now) keys.set(id, key);
    }
  }

  return {
    async enter({ key: { id } }) {
      const now = Math.floor(monotonic() * 1000);
      forgetIdle(now);
      const key = keys.get(id) ?? { running: 0, fullAt: 0 };
      keys.delete(id);
      keys.set(id, key);
      if (key.running >= limits.concurrency) throw limitReached('concurrency', limits);
      const fullAt = draw(pace, key.fullAt, now);
      if (fullAt === undefined) throw limitReached('rate', limits);
      key.fullAt = fullAt;
      key.running++;
      return placeOf(() => {
        key.running--;
      });
    },
  };
}
