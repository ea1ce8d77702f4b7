import { ClientGone } from '../../http/error.ts';

/**
 * How long readers wait for the last line when the host stops. Shorter than the host's wait before it closes
 * connections, so that readers of a run, which ends later, receive its end.
 */
const graceMs = 200;

/**
 * A signal that aborts at once when the client disconnects, but after a delay when the host stops, so that the end can
 * be sent.
 */
export function createReaderSignal(signal: AbortSignal): AbortSignal {
  const reader = new AbortController();
  const abortReader = () => {
    const { reason } = signal as { reason: unknown };
    if (reason instanceof ClientGone) reader.abort(reason);
    else setTimeout(() => reader.abort(reason), graceMs).unref();
  };
  if (signal.aborted) abortReader();
  else signal.addEventListener('abort', abortReader, { once: true });
  return reader.signal;
}
