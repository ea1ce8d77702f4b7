import { asFault, type Fault, faultOf } from '../api/fault.ts';
import { jsonLines } from '../api/lines.ts';

interface Numbered {
  readonly seq: number;
}

export interface Following<Event extends Numbered> {
  /** Requests the events after a sequence number. Rejects with `Fault`, or when the connection fails. */
  readonly read: (after: number) => Promise<Response>;
  /** Sequence number of the last event already received; -1: none. */
  readonly after: number;
  /** Whether events can follow after a response body ends. */
  readonly isOpen: boolean;
  readonly signal: AbortSignal;
  readonly onEvent: (event: Event) => void;
  /** Called when the connection fails, before a reconnect; undefined when it is restored. */
  readonly onBreak: (fault: Fault | undefined) => void;
  /** Resolves after the given number of milliseconds. */
  readonly pause: (ms: number) => Promise<unknown>;
}

/** Pause between reads of a stream that is open but has no new events. */
const betweenReadsMs = 1000;
const longestPauseMs = 10_000;

/**
 * Delivers each event of a task or run once and in order, and reconnects as often as needed. Resolves when the stream
 * is complete.
 * @throws Fault when the host refuses with a 4xx status
 */
export async function follow<Event extends Numbered>(following: Following<Event>): Promise<void> {
  const { read, isOpen, signal, onEvent, onBreak, pause } = following;
  let last = following.after;
  let breaks = 0;
  while (!signal.aborted) {
    try {
      const response = await read(last);
      if (breaks > 0) onBreak(undefined);
      for await (const line of jsonLines<Event | { readonly error: unknown }>(response)) {
        if (signal.aborted) return;
        // A failure of the host is the last line and has no `seq`; an event of a step may have `error`, too.
        if (!('seq' in line)) throw faultOf(new Response(null, { status: 500 }), line);
        breaks = 0;
        if (line.seq <= last) continue;
        last = line.seq;
        onEvent(line);
      }
      if (!isOpen) return;
      await pause(betweenReadsMs);
    } catch (error) {
      if (signal.aborted) return;
      const fault = asFault(error);
      // A refused request is not retried: it would be refused again.
      if (fault.status >= 400 && fault.status < 500) throw fault;
      breaks += 1;
      onBreak(fault);
      await pause(Math.min(longestPauseMs, 500 * 2 ** (breaks - 1)));
    }
  }
}
