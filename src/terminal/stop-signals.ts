type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';
/** Signals that ask a service to read its configuration again. */
type ReloadSignal = 'SIGUSR2' | 'SIGHUP';

/** The process, or a test double. */
export interface SignalSource {
  on(signal: StopSignal | ReloadSignal, listener: () => void): unknown;
}

/** Within this time, the same signal is one request. */
export const sameSignalMs = 100;

/** Exit code that a shell reports for a process ended by SIGINT. */
export const interruptedExitCode = 130;

/**
 * Calls `onStop` with 1 at the first SIGINT, SIGTERM or SIGHUP, and with 2, 3, ... at each further request to stop.
 * SIGHUP does not count as a further request: a closing terminal sends it more than once (the shell, then the kernel),
 * and a service manager sends it together with SIGTERM. The same signal within `sameSignalMs` is one request: a service manager
 * signals all processes of a service, of which one may forward it to another.
 * @param options.now the time in ms
 * @param options.ignoresHangup SIGHUP is no request to stop
 */
export function onStopSignals(
  source: SignalSource,
  onStop: (request: number) => void,
  {
    now = () => performance.now(),
    ignoresHangup = false,
  }: { readonly now?: () => number; readonly ignoresHangup?: boolean } = {},
): void {
  let isStopping = false;
  /** When each signal last counted: those of a key that is held down are further requests. */
  const counted = new Map<StopSignal, number>();
  let requests = 0;
  const begin = () => {
    if (isStopping) return;
    isStopping = true;
    onStop(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    source.on(signal, () => {
      const isSame = now() - (counted.get(signal) ?? Number.NEGATIVE_INFINITY) < sameSignalMs;
      if (isSame) return;
      counted.set(signal, now());
      requests++;
      begin();
      if (requests > 1) onStop(requests);
    });
  if (!ignoresHangup) source.on('SIGHUP', begin);
}

/**
 * Calls `onReload` at SIGUSR2, and at SIGHUP where the process has no terminal that could close.
 * @param hasTerminal whether the process has a controlling terminal
 */
export function onReloadSignals(source: SignalSource, onReload: () => void, hasTerminal: boolean): void {
  if (process.platform === 'win32') return;
  source.on('SIGUSR2', onReload);
  if (!hasTerminal) source.on('SIGHUP', onReload);
}
