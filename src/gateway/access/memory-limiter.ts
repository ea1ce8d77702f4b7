import { type KeyLimits, limitReached, placeOf } from './limits.ts';
import { draw, paceOf } from './pace.ts';
import type { Limiter } from './types.ts';

/** Of one gateway alone: each replica lets in as many. */
export function memoryLimiter(limits: KeyLimits, monotonic = (): number => performance.now()): Limiter {
  const pace = paceOf(limits.requestsPerMinute);
  /** Those that asked last are last. */
  const keys = new Map<string, { running: number; fullAt: number }>();

  /** Two looks for every request go round faster than keys come: those that are idle for a minute are not kept. */
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
