import { asFault, type Fault, faultOf } from '../../api/fault.ts';
import { readJsonLines } from '../../api/lines.ts';

interface SequencedEvent {
  readonly seq: number;
}

export interface FollowOptions<Event extends SequencedEvent> {
  /** Requests the events after a sequence number. Rejects with `Fault`, or when the connection fails. */
  readonly read: (after: number) => Promise<Response>;
  /** Sequence number of the last event already received; -1: none. */
  readonly after: number;
  /** Whether events can follow after a response body ends. */
  readonly isOpen: boolean;
  readonly signal: AbortSignal;
  readonly onEvent: (event: Event) => void;
  /** Called when the connection fails, before a reconnect; undefined when it is restored. */
  readonly onDisconnect: (fault: Fault | undefined) => void;
  /** Resolves after the given number of milliseconds. */
  readonly pause: (ms: number) => Promise<unknown>;
}

/** Pause between reads of a stream that is open but has no new events. */
const pollIntervalMs = 1000;
const maxRetryDelayMs = 10_000;

/**
 * Delivers each event of a task or run once and in order, and reconnects as often as needed. Resolves when the stream
 * is complete.
 * @throws Fault when the host refuses with a 4xx status
 */
export async function followEvents<Event extends SequencedEvent>(
  options: FollowOptions<Event>,
): Promise<void> {
  const { read, isOpen, signal, onEvent, onDisconnect, pause } = options;
  let lastSeq = options.after;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const response = await read(lastSeq);
      if (failures > 0) onDisconnect(undefined);
      for await (const line of readJsonLines<Event | { readonly error: unknown }>(response)) {
        if (signal.aborted) return;
        // A failure of the host is the last line and has no `seq`; an event of a step may have `error`, too.
        if (!('seq' in line)) throw faultOf(new Response(null, { status: 500 }), line);
        failures = 0;
        if (line.seq <= lastSeq) continue;
        lastSeq = line.seq;
        onEvent(line);
      }
      if (!isOpen) return;
      await pause(pollIntervalMs);
    } catch (error) {
      if (signal.aborted) return;
      const fault = asFault(error);
      // A refused request is not retried: it would be refused again.
      if (fault.status >= 400 && fault.status < 500) throw fault;
      failures += 1;
      onDisconnect(fault);
      await pause(Math.min(maxRetryDelayMs, 500 * 2 ** (failures - 1)));
    }
  }
}
