import { useEffect, useRef, useState } from 'react';
import { pause } from '../../../src/util/pause.ts';
import type { Fault } from '../api/fault.ts';
import { raw } from '../api/client.ts';
import { follow } from './follow.ts';

export interface Told<Event> {
  readonly events: readonly Event[];
  /** The connection was lost and is being restored. */
  readonly broken: Fault | undefined;
  /** Error that ended the stream: the host refused the request. */
  readonly fault: unknown;
}

/** Events that arrive within this time are rendered together. */
const drawnEveryMs = 60;

/**
 * Events of a task or run, live while the component is mounted.
 * @param path of the events route
 * @param isOpen whether more events can come
 * @param mark version of a stream that is not open: when it changes, the events are read again
 */
export function useEvents<Event extends { readonly seq: number }>(
  path: string,
  isOpen: boolean,
  mark = '',
): Told<Event> {
  const again = isOpen ? '' : mark;
  const kept = useRef<{ path: string; events: Event[] }>({ path: '', events: [] });
  const [told, setTold] = useState<Told<Event>>({ events: [], broken: undefined, fault: undefined });
  useEffect(() => {
    if (kept.current.path !== path) kept.current = { path, events: [] };
    const { events } = kept.current;
    const stop = new AbortController();
    const { signal } = stop;
    let drawing: ReturnType<typeof setTimeout> | undefined;
    let broken: Fault | undefined;
    const draw = (fault?: unknown) => {
      clearTimeout(drawing);
      drawing = undefined;
      if (!signal.aborted) setTold({ events: [...events], broken, fault });
    };
    draw();
    follow<Event>({
      read: (after) => raw(`${path}?after=${after}`, { signal }),
      after: events.at(-1)?.seq ?? -1,
      isOpen,
      signal,
      onEvent: (event) => {
        events.push(event);
        drawing ??= setTimeout(draw, drawnEveryMs);
      },
      onBreak: (fault) => {
        broken = fault;
        draw();
      },
      pause,
    }).then(() => draw(), draw);
    return () => {
      stop.abort();
      clearTimeout(drawing);
    };
  }, [path, isOpen, again]);
  return told;
}
