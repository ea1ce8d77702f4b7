import { raceAbort } from '../util/race-abort.ts';

/** Waits for a change, at most `ms` milliseconds. Rejects with the signal's reason. */
export async function waitForChange(
  change: Promise<void> | undefined,
  ms: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
  const forget = change && onceSettled(change, resolve);
  try {
    await raceAbort(promise, signal);
  } finally {
    clearTimeout(timer);
    forget?.();
  }
}

const waiters = new WeakMap<Promise<void>, Set<() => void>>();

/**
 * Calls a waiter when a promise settles. `then` and `Promise.race` would keep something for each call until then, and where nothing
 * changes, callers wait again and again for the same promise.
 * @returns a function that forgets the waiter
 */
function onceSettled(change: Promise<void>, waiter: () => void): () => void {
  const known = waiters.get(change);
  const all = known ?? new Set();
  all.add(waiter);
  if (!known) {
    waiters.set(change, all);
    const settle = () => {
      waiters.delete(change);
      for (const one of all) one();
    };
    change.then(settle, settle);
  }
  return () => all.delete(waiter);
}
