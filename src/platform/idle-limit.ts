import { Stalled } from './interruption.ts';

/** Aborts an operation that shows no activity for too long. */
export interface IdleLimit {
  readonly signal: AbortSignal;
  /** Activity: restarts the time. */
  readonly alive: () => void;
  /** Stops the timers. */
  readonly rest: () => void;
  /** Stops the timers and aborts the operation. */
  readonly end: () => void;
}

/** Notice that is sent once in each idle period, before the limit. */
export interface QuietNotice {
  readonly afterMs: number;
  readonly tell: () => void;
}

/** Creates an idle timeout. When it fires, the reason of the signal is a `Stalled`. */
export function idleLimit(ms: number, notice?: QuietNotice): IdleLimit {
  const idle = new AbortController();
  const watch = () => [
    setTimeout(() => idle.abort(new Stalled(`no data for ${ms / 1000} s`)), ms),
    ...(notice && notice.afterMs < ms ? [setTimeout(notice.tell, notice.afterMs)] : []),
  ];
  let timers = watch();
  const rest = () => timers.forEach(clearTimeout);
  return {
    signal: idle.signal,
    alive() {
      rest();
      timers = watch();
    },
    rest,
    end() {
      rest();
      idle.abort(new Error('done'));
    },
  };
}
