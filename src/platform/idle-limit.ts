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

export function idleLimit(ms: number): IdleLimit {
  const idle = new AbortController();
  const watch = () => setTimeout(() => idle.abort(new Error('no data came')), ms);
  let timer = watch();
  const rest = () => clearTimeout(timer);
  return {
    signal: idle.signal,
    alive() {
      rest();
      timer = watch();
    },
    rest,
    end() {
      rest();
      idle.abort(new Error('done'));
    },
  };
}
