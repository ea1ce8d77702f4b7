import { type RackId, rackOf, type Sink } from '../../watch/index.ts';
import type { Content, NewEvent } from '../types.ts';
import { eventsOf } from './events.ts';

export interface CaptureOptions {
  /** What counts for a rack now, undefined while it is disarmed. Asked at the beginning and end of all work: from memory. */
  readonly contentOf: (rack: RackId) => Content | undefined;
  /** Stores as much of events as the policy allows; neither throws nor waits. */
  readonly record: (rack: RackId, events: readonly NewEvent[]) => void;
}

/** Keeps what the host's own planes say of their work, where a rack is armed. */
export function captureSink({ contentOf, record }: CaptureOptions): Sink {
  return {
    keepsTexts: (rack) => contentOf(rack) === 'full',
    ended(work) {
      const rack = rackOf(work);
      // As it is at the end: a rack that was disarmed meanwhile gets nothing.
      if (contentOf(rack) !== undefined) record(rack, eventsOf(work));
    },
  };
}
