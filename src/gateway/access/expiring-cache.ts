import { LRUCache } from 'lru-cache';

/** An LRU cache of at most `maxEntries`. An entry expires `ttlMs` after it was set; reads do not extend this. */
export const createExpiringCache = <Value extends {}>(
  maxEntries: number,
  ttlMs: number,
  monotonicMs: () => number,
): LRUCache<string, Value> =>
  new LRUCache({
    max: maxEntries,
    // The library treats an entry whose age equals its ttl as valid.
    ttl: ttlMs - 1,
    // Read the clock for every lookup; set no timer.
    ttlResolution: 0,
    perf: { now: monotonicMs },
  });
