/** Does one thing after the other, in the order in which they were asked for. */
export function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const before = last;
    const turn = Promise.withResolvers<void>();
    last = turn.promise;
    await before;
    try {
      return await work();
    } finally {
      turn.resolve();
    }
  };
}
