import { ClientGone } from '../../http/error.ts';

/**
 * When the host stops: how long readers still wait for the last line of what is ended with it. Less than the host waits
 * before it cuts connections, so that readers of a run, which ends later, are told.
 */
const graceMs = 200;

/** Ends a reader at once with its client, but with the host only when there was time to tell the end. */
export function readerSignal(signal: AbortSignal): AbortSignal {
  const reading = new AbortController();
  const leave = () => {
    const { reason } = signal as { reason: unknown };
    if (reason instanceof ClientGone) reading.abort(reason);
    else setTimeout(() => reading.abort(reason), graceMs).unref();
  };
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  return reading.signal;
}
