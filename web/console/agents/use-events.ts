import { useEffect, useRef, useState } from 'react';
import { pause } from '../../../src/util/pause.ts';
import type { Fault } from '../api/fault.ts';
import { raw } from '../api/client.ts';
import { follow } from './follow.ts';

export interface Told<Event> {
  readonly events: readonly Event[];
  /** The connection broke, and is made anew. */
  readonly broken: Fault | undefined;
  /** The host refused. */
  readonly fault: unknown;
}

/** What comes within this time is shown at once. */
const drawnEveryMs = 60;

/**
 * The lines of a task or run, live while the view is there.
 * @param path of its events
 * @param isOpen more may come
 * @param mark of one that is not open: when it changes, there are more
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
