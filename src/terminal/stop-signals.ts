type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The process, or what a test gives instead. */
export interface SignalSource {
  on(signal: StopSignal, listener: () => void): unknown;
}

/** The exit code that a shell reports for a process that SIGINT ended. */
export const interruptedExitCode = 130;

/**
 * Calls `onStop` with 1 at the first SIGINT, SIGTERM or SIGHUP, and with 2, 3, ... at each further request to stop.
 * Only SIGINT and SIGTERM are further requests: a terminal that closes sends SIGHUP more than once (the shell, then the
 * kernel), a service manager sends SIGTERM and SIGHUP together, and nobody is impatient then.
 */
export function onStopSignals(source: SignalSource, onStop: (request: number) => void): void {
  let isStopping = false;
  let requests = 0;
  const begin = () => {
    if (isStopping) return;
    isStopping = true;
    onStop(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    source.on(signal, () => {
      requests++;
      begin();
      if (requests > 1) onStop(requests);
    });
  source.on('SIGHUP', begin);
}
