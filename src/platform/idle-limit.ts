import { Stalled } from './interruption.ts';

/** Ends what goes on too long without a sign of life. */
export interface IdleLimit {
  readonly signal: AbortSignal;
  /** A sign of life: the time begins anew. */
  readonly alive: () => void;
  /** Nothing more is waited for. */
  readonly rest: () => void;
  /** Drops what is still on its way. */
  readonly end: () => void;
}

/** Told once in every quiet period, before the limit. */
export interface QuietNotice {
  readonly afterMs: number;
  readonly tell: () => void;
}

/** The signal's reason is a `Stalled` when the time is up. */
export function idleLimit(ms: number, notice?: QuietNotice): IdleLimit {
  const idle = new AbortController();
  const watch = () => [
    setTimeout(() => idle.abort(new Stalled(`nothing came for ${ms / 1000} s`)), ms),
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
