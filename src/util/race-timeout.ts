/** Resolves with the result of the work, or with `late` after `timeoutMs`. The work's later outcome is ignored. */
export async function raceTimeout<Value>(work: Promise<Value>, timeoutMs: number): Promise<Value | 'late'> {
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => resolve('late'), timeoutMs);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
