import type { NewRunEvent, RunEvent } from '../../shapes/run.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import type { TraceSpan } from '../../../tracing/index.ts';
import type { StreamWriter } from '../../event-log/stream-writer.ts';
import type { Ensemble } from '../definition/ensemble.ts';
import type { RunRequests } from './run-requests.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunServices } from './run-services.ts';

/** An event of a run before the log numbers it and its inner event. */
export type UnnumberedRunEvent =
  | Exclude<NewRunEvent, { type: 'step_event' }>
  | (Omit<Extract<RunEvent, { type: 'step_event' }>, 'seq' | 'ts' | 'event'> & { event: NewTurnEvent });

/** State of a run's open segment. */
export interface Segment {
  readonly services: RunServices;
  /** Span of the segment. */
  readonly span: TraceSpan<'run'>;
  /** The run's row when the segment began. */
  readonly row: RunRow;
  readonly ensemble: Ensemble;
  readonly writer: StreamWriter<UnnumberedRunEvent>;
  /** Stored step rows of this cycle, by step id. */
  readonly records: Map<string, StepRow>;
  readonly requests: RunRequests;
  /** Aborted when the host stops. */
  readonly stopping: AbortSignal;
}
