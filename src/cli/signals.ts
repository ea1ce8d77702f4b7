import { interruptedExitCode, onStopSignals, type SignalSource } from '../terminal/stop-signals.ts';

const hardLimitMs = 4500;

/**
 * The first SIGINT, SIGTERM or SIGHUP stops the host in order and exits with 0, after at most 4.5 s. The second SIGINT
 * or SIGTERM exits at once. `exit` also ends a process whose device hangs.
 */
export function stopOnSignals(
  source: SignalSource,
  stop: () => Promise<void>,
  exit: (code: number) => void,
): void {
  onStopSignals(source, (request) => {
    if (request > 1) {
      exit(interruptedExitCode);
      return;
    }
    setTimeout(() => exit(0), hardLimitMs);
    void stop().then(
      () => exit(0),
      () => exit(0),
    );
  });
}

/**
 * For a command without a shutdown procedure: the first signal aborts it with exit code 130; the second exits at once.
 */
export function abortOnSignals(source: SignalSource, exit: (code: number) => void): AbortSignal {
  const interrupted = new AbortController();
  onStopSignals(source, (request) => {
    if (request > 1) exit(interruptedExitCode);
    setTimeout(() => exit(interruptedExitCode), hardLimitMs).unref();
    interrupted.abort(new Interrupted());
  });
  return interrupted.signal;
}

/** The command was interrupted by a signal. */
export class Interrupted extends Error {
  readonly exitCode = interruptedExitCode;
  constructor() {
    super('interrupted');
    this.name = 'Interrupted';
  }
}
