type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

/** The process, or a test double. */
export interface SignalSource {
  on(signal: StopSignal, listener: () => void): unknown;
}

/** Exit code that a shell reports for a process ended by SIGINT. */
export const interruptedExitCode = 130;

/**
 * Calls `onStop` with 1 at the first SIGINT, SIGTERM or SIGHUP, and with 2, 3, ... at each further request to stop.
 * SIGHUP does not count as a further request: a closing terminal sends it more than once (the shell, then the kernel),
 * and a service manager sends it together with SIGTERM.
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
