/** The promise's result; as soon as the signal is aborted, its reason as an error instead. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  // Whatever becomes of it afterwards interests nobody.
  promise.catch(() => undefined);
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Waits for the change, or for some milliseconds; rejects with the signal's reason. */
export async function pause(
  change: Promise<void> | undefined,
  ms: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
  try {
    await untilAborted(change ? Promise.race([change, promise]) : promise, signal);
  } finally {
    clearTimeout(timer);
  }
}
