import { asFault, type Fault, faultOf } from '../api/fault.ts';
import { jsonLines } from '../api/lines.ts';

interface Numbered {
  readonly seq: number;
}

export interface Following<Event extends Numbered> {
  /** Asks for the lines after one. Rejects with `Fault`, or where the connection breaks. */
  readonly read: (after: number) => Promise<Response>;
  /** The last line that is there already; -1: none. */
  readonly after: number;
  /** More may come after the end of a body. */
  readonly isOpen: boolean;
  readonly signal: AbortSignal;
  readonly onEvent: (event: Event) => void;
  /** The connection broke, and is made anew after a while; undefined: it is there again. */
  readonly onBreak: (fault: Fault | undefined) => void;
  /** Resolves after so many milliseconds. */
  readonly pause: (ms: number) => Promise<unknown>;
}

/** Of a stream that is open and has nothing to say. */
const betweenReadsMs = 1000;
const longestPauseMs = 10_000;

/**
 * Tells the lines of a task or run once each and in their order, over as many connections as it takes. Resolves when
 * nothing more comes. @throws Fault where the host refuses
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
        // The host's own failure is its last line, which has no number; steps may have errors, too.
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
      // What it refused it will refuse again.
      if (fault.status >= 400 && fault.status < 500) throw fault;
      breaks += 1;
      onBreak(fault);
      await pause(Math.min(longestPauseMs, 500 * 2 ** (breaks - 1)));
    }
  }
}
