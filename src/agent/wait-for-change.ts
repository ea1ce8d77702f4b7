import { raceAbort } from '../util/race-abort.ts';

/** Waits for a change, at most `ms` milliseconds. Rejects with the signal's reason. */
export async function waitForChange(
  change: Promise<void> | undefined,
  ms: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
  try {
    await raceAbort(change ? Promise.race([change, promise]) : promise, signal);
  } finally {
    clearTimeout(timer);
  }
}
