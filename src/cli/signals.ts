const hardLimitMs = 4500;
/** As a shell reports a process that SIGINT ended. */
const impatient = 130;

export interface SignalSource {
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
}

/**
 * The first SIGINT or SIGTERM stops in order and exits with 0, after 4.5 s in any case; the second exits at once.
 * Exiting, unlike returning, also ends a process whose device hangs.
 */
export function stopOnSignals(
  source: SignalSource,
  stop: () => Promise<void>,
  exit: (code: number) => void,
): void {
  let signals = 0;
  const onSignal = () => {
    signals++;
    if (signals > 1) {
      exit(impatient);
      return;
    }
    setTimeout(() => exit(0), hardLimitMs);
    void stop().then(
      () => exit(0),
      () => exit(0),
    );
  };
  source.on('SIGINT', onSignal);
  source.on('SIGTERM', onSignal);
}

/** For a command that merely stops: the first signal aborts, which ends it with 130; the second exits at once. */
export function abortOnSignals(source: SignalSource, exit: (code: number) => void): AbortSignal {
  const interrupted = new AbortController();
  const onSignal = () => {
    if (interrupted.signal.aborted) exit(impatient);
    setTimeout(() => exit(impatient), hardLimitMs).unref();
    interrupted.abort(new Interrupted());
  };
  source.on('SIGINT', onSignal);
  source.on('SIGTERM', onSignal);
  return interrupted.signal;
}

/** A signal ended the command. */
export class Interrupted extends Error {
  readonly exitCode = impatient;
  constructor() {
    super('interrupted');
    this.name = 'Interrupted';
  }
}
