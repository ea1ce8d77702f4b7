import { LRUCache } from 'lru-cache';

/** An LRU cache of at most `maxEntries`. An entry dies `lifeMs` after it was set, also when it is read meanwhile. */
export const expiringCache = <Value extends {}>(
  maxEntries: number,
  lifeMs: number,
  monotonic: () => number,
): LRUCache<string, Value> =>
  new LRUCache({
    max: maxEntries,
    // An entry as old as its ttl still counts.
    ttl: lifeMs - 1,
    // The clock is read each time, and no timer is set.
    ttlResolution: 0,
    perf: { now: monotonic },
  });
