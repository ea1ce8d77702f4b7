/** Concurrent calls per batch. */
const batchSize = 8;

/**
 * Calls `callback` for every item, at most 8 at a time, and returns the results in order. When a call fails, the other
 * calls of its batch are awaited before this throws, so that the caller can close whatever they opened.
 */
export const mapInBatches = async <Item, Result>(
  items: readonly Item[],
  callback: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += batchSize) {
    for (const outcome of await Promise.allSettled(items.slice(at, at + batchSize).map(callback))) {
      if (outcome.status === 'rejected') throw outcome.reason;
      results.push(outcome.value);
    }
  }
  return results;
};
