/** The outcome of the work, or `late` when it takes longer than `timeoutMs`. What becomes of the work after that is ignored. */
export async function raceTimeout<Value>(work: Promise<Value>, timeoutMs: number): Promise<Value | 'late'> {
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => resolve('late'), timeoutMs);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
