import type { NewRunEvent, RunEvent } from '../../shapes/run.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import type { Work } from '../../../watch/index.ts';
import type { StreamWriter } from '../../event-log/writer.ts';
import type { Ensemble } from '../definition/ensemble.ts';
import type { Orders } from './orders.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunWorld } from './world.ts';

/** An event of a run as the log takes it, which numbers what is in it too. */
export type RunLine =
  | Exclude<NewRunEvent, { type: 'step_event' }>
  | (Omit<Extract<RunEvent, { type: 'step_event' }>, 'seq' | 'ts' | 'event'> & { event: NewTurnEvent });

/** A run while one of its segments is open. */
export interface Segment {
  readonly world: RunWorld;
  /** For who watches. */
  readonly work: Work<'run'>;
  /** As it was when the segment began. */
  readonly row: RunRow;
  readonly ensemble: Ensemble;
  readonly writer: StreamWriter<RunLine>;
  /** The steps of this cycle, as they are in the database. */
  readonly records: Map<string, StepRow>;
  readonly orders: Orders;
  /** Aborted when the host stops. */
  readonly stopping: AbortSignal;
}
