/** Concurrent calls per batch. */
const atOnce = 8;

/**
 * Calls `callback` for every item, at most 8 at a time, and returns the results in order. When a call fails, the other
 * calls of its batch are awaited before this throws, so that the caller can close whatever they opened.
 */
export const inWaves = async <Item, Result>(
  items: readonly Item[],
  act: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += atOnce) {
    for (const one of await Promise.allSettled(items.slice(at, at + atOnce).map(act))) {
      if (one.status === 'rejected') throw one.reason;
      results.push(one.value);
    }
  }
  return results;
};
