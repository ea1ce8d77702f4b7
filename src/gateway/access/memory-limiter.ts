import { type KeyLimits, limitError, createPermit, limitsOf } from './limits.ts';
import { requestWait, takeRequest, requestRateOf } from './request-rate.ts';
import { isSpent, takeTokens, tokenWait } from './token-rate.ts';
import type { Limiter } from './types.ts';

/** A limiter in memory: each gateway process applies the limits on its own. @param defaults of keys without their own */
export function createMemoryLimiter(
  defaults: KeyLimits,
  monotonicMs = (): number => performance.now(),
): Limiter {
  /** Ordered by last use. Times in microseconds. */
  const keys = new Map<string, { running: number; fullAt: number; tokensFullAt: number }>();
  const nowMicros = () => Math.floor(monotonicMs() * 1000);

  /** Removes idle keys: checks two keys for every request, which is faster than new keys are added. */
  function removeIdle(now: number): void {
    let remainingChecks = 2;
    for (const [id, key] of keys) {
      if (remainingChecks-- === 0) return;
      keys.delete(id);
      if (key.running > 0 || key.fullAt > now || key.tokensFullAt > now) keys.set(id, key);
    }
  }

  function stateOf(id: string) {
    const key = keys.get(id) ?? { running: 0, fullAt: 0, tokensFullAt: 0 };
    keys.delete(id);
    keys.set(id, key);
    return key;
  }

  return {
    async acquire({ key: keyRow }, estimatedTokens = 0) {
      const { id } = keyRow;
      const limits = limitsOf(keyRow, defaults);
      const { tokensPerMinute } = limits;
      const now = nowMicros();
      removeIdle(now);
      const key = stateOf(id);
      if (key.running >= limits.concurrency) throw limitError('concurrency', limits);
      if (tokensPerMinute !== undefined && isSpent(key.tokensFullAt, now))
        throw limitError('tokens', limits, tokenWait(key.tokensFullAt, now));
      const rate = requestRateOf(limits.requestsPerMinute);
      const fullAt = takeRequest(rate, key.fullAt, now);
      if (fullAt === undefined) throw limitError('rate', limits, requestWait(rate, key.fullAt, now));
      key.fullAt = fullAt;
      key.running++;
      const take = (tokens: number) => {
        if (tokensPerMinute === undefined || tokens === 0) return;
        const state = stateOf(id);
        state.tokensFullAt = takeTokens(tokensPerMinute, state.tokensFullAt, nowMicros(), tokens);
      };
      take(estimatedTokens);
      return createPermit(
        () => {
          key.running--;
        },
        (tokens) => take(tokens - estimatedTokens),
      );
    },
  };
}
