/** Creates a queue that runs asynchronous work one at a time, in order. */
export function createSerialQueue(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const previous = last;
    const turn = Promise.withResolvers<void>();
    last = turn.promise;
    await previous;
    try {
      return await work();
    } finally {
      turn.resolve();
    }
  };
}
