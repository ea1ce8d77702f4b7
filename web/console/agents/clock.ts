import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const one of listeners) one();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The current time, which changes at most once a second: renders at the same moment show the same text. */
function currentTime(): number {
  if (timer === undefined && Date.now() - now >= 1000) now = Date.now();
  return now;
}

/**
 * Text that depends on the current time. One timer serves all components; each renders again only when its text
 * changes.
 */
export const useTimedText = (format: (now: number) => string): string =>
  useSyncExternalStore(subscribe, () => format(currentTime()));
