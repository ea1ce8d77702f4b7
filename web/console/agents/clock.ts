import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
let now = Date.now();
let ticking: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  ticking ??= setInterval(() => {
    now = Date.now();
    for (const one of listeners) one();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(ticking);
    ticking = undefined;
  };
}

/** The same for a while: what is drawn twice at once must say the same. */
function lookedAt(): number {
  if (ticking === undefined && Date.now() - now >= 1000) now = Date.now();
  return now;
}

/** What is said of a time, looked at once a second by one clock for all; drawn anew only where it says something else. */
export const useSaid = (say: (now: number) => string): string =>
  useSyncExternalStore(subscribe, () => say(lookedAt()));
