import { type RackId, rackOf, type TraceSink } from '../../tracing/index.ts';
import type { ContentLevel, NewEvent } from '../types.ts';
import { spanEvents } from './events.ts';

export interface CaptureOptions {
  /**
   * Current content policy of a rack; undefined while it is disarmed. Called at the start and end of every span, so it
   * must be fast.
   */
  readonly contentOf: (rack: RackId) => ContentLevel | undefined;
  /** Stores as much of the events as the policy allows. Does not throw or wait. */
  readonly record: (rack: RackId, events: readonly NewEvent[]) => void;
}

/** Records the spans of the host's planes in armed racks. */
export function captureSink({ contentOf, record }: CaptureOptions): TraceSink {
  return {
    wantsTranscript: (rack) => contentOf(rack) === 'full',
    onEnd(work) {
      const rack = rackOf(work);
      // Checked at the end of the span: a rack that was disarmed meanwhile records nothing.
      if (contentOf(rack) !== undefined) record(rack, spanEvents(work));
    },
  };
}
