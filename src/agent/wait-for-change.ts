import { unlessAborted } from '../util/abort.ts';

/** Waits for the change, or for some milliseconds; rejects with the signal's reason. */
export async function waitForChange(
  change: Promise<void> | undefined,
  ms: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
  try {
    await unlessAborted(change ? Promise.race([change, promise]) : promise, signal);
  } finally {
    clearTimeout(timer);
  }
}
