import { useEffect, useRef, useState } from 'react';
import type { Fault } from '../../api/fault.ts';
import { hostConnection } from '../../api/host-connection.ts';
import { fetchRaw } from '../../api/client.ts';
import { followEvents } from './follow-events.ts';

export interface EventStream<Event> {
  readonly events: readonly Event[];
  /** The connection was lost and is being restored. */
  readonly disconnectFault: Fault | undefined;
  /** Error that ended the stream: the host refused the request. */
  readonly fault: unknown;
}

/** Events that arrive within this time are rendered together. */
const renderIntervalMs = 60;

/**
 * Events of a task or run, live while the component is mounted.
 * @param path of the events route
 * @param isOpen whether more events can come
 * @param version of a stream that is not open: when it changes, the events are read again
 */
export function useEvents<Event extends { readonly seq: number }>(
  path: string,
  isOpen: boolean,
  version = '',
): EventStream<Event> {
  const reloadKey = isOpen ? '' : version;
  const cache = useRef<{ path: string; events: Event[] }>({ path: '', events: [] });
  const [stream, setTold] = useState<EventStream<Event>>({
    events: [],
    disconnectFault: undefined,
    fault: undefined,
  });
  useEffect(() => {
    if (cache.current.path !== path) cache.current = { path, events: [] };
    const { events } = cache.current;
    const stop = new AbortController();
    const { signal } = stop;
    let renderTimer: ReturnType<typeof setTimeout> | undefined;
    let disconnectFault: Fault | undefined;
    const publish = (fault?: unknown) => {
      clearTimeout(renderTimer);
      renderTimer = undefined;
      if (!signal.aborted) setTold({ events: [...events], disconnectFault, fault });
    };
    publish();
    followEvents<Event>({
      read: (after) => fetchRaw(`${path}?after=${after}`, { signal }),
      after: events.at(-1)?.seq ?? -1,
      isOpen,
      signal,
      onEvent: (event) => {
        events.push(event);
        renderTimer ??= setTimeout(publish, renderIntervalMs);
      },
      onDisconnect: (fault) => {
        disconnectFault = fault;
        publish();
      },
      pause: (ms) => hostConnection.pause(ms),
    }).then(() => publish(), publish);
    return () => {
      stop.abort();
      clearTimeout(renderTimer);
    };
  }, [path, isOpen, reloadKey]);
  return stream;
}
