import { Stalled } from './interruption.ts';

/** Aborts an operation that shows no activity for too long. */
export interface IdleTimeout {
  readonly signal: AbortSignal;
  /** Activity: restarts the time. */
  readonly reset: () => void;
  /** Stops the timers. */
  readonly stop: () => void;
  /** Stops the timers and aborts the operation. */
  readonly abort: () => void;
}

/** Notice that is sent once in each idle period, before the limit. */
export interface IdleNotice {
  readonly afterMs: number;
  readonly notify: () => void;
}

/** Creates an idle timeout. When it fires, the reason of the signal is a `Stalled`. */
export function createIdleTimeout(ms: number, notice?: IdleNotice): IdleTimeout {
  const idle = new AbortController();
  const startTimers = () => [
    setTimeout(() => idle.abort(new Stalled(`no data for ${ms / 1000} s`)), ms),
    ...(notice && notice.afterMs < ms ? [setTimeout(notice.notify, notice.afterMs)] : []),
  ];
  let timers = startTimers();
  const stop = () => timers.forEach(clearTimeout);
  return {
    signal: idle.signal,
    reset() {
      stop();
      timers = startTimers();
    },
    stop,
    abort() {
      stop();
      idle.abort(new Error('done'));
    },
  };
}
