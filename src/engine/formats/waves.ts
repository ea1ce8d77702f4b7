/** At once over a network, so that many files do not wait for each in turn. */
const atOnce = 8;

/**
 * `act` for every item, a few at a time; results in the order of the items. When one fails, the others of its wave are
 * awaited all the same, so that whatever they opened is known to whoever closes it.
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
