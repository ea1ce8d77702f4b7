import type { NewRunEvent, RunEvent } from '../../shapes/run.ts';
import type { NewTurnEvent } from '../../shapes/turn-event.ts';
import type { TraceSpan } from '../../../tracing/index.ts';
import type { StreamWriter } from '../../event-log/stream-writer.ts';
import type { Step } from '../definition/ensemble.ts';
import type { RunRequests } from './run-requests.ts';
import type { RunRow, StepRow } from './rows.ts';
import type { RunServices } from './run-services.ts';
import type { RunWorkflows, Scope } from './scope.ts';
import type { Semaphore } from './semaphore.ts';
import type { SlotLease } from './slot-lease.ts';
import type { StepsResult } from './step-result.ts';

/** An event of a run before the log numbers it and its inner event. */
export type UnnumberedRunEvent =
  | Exclude<NewRunEvent, { type: 'step_event' }>
  | (Omit<Extract<RunEvent, { type: 'step_event' }>, 'seq' | 'ts' | 'event'> & { event: NewTurnEvent });

/** Columns of a run when one of its steps goes on: others may still wait for a person. */
export const stillWaiting = ({ waits }: Pick<Segment, 'waits'>) =>
  waits.size > 0 ? { waiting_on: 'approval' as const } : { waiting_on: null, gate: null };

/** State of a run's open segment. */
export interface Segment {
  readonly services: RunServices;
  /** Span of the segment. */
  readonly span: TraceSpan<'run'>;
  /** The run's row when the segment began. */
  readonly row: RunRow;
  readonly workflows: RunWorkflows;
  /** The workflow whose steps run: the run's own, or one that a step runs. */
  readonly scope: Scope;
  /** Steps of the scope that may run at the same time. */
  readonly parallel: number;
  /** Lets as many agents of the run work at the same time as its workflow allows. */
  readonly agentSlots: Semaphore;
  readonly lease: SlotLease;
  /** Steps that wait for a person's approval. */
  readonly waits: Set<string>;
  /** Runs the steps of a workflow. */
  readonly runSteps: (segment: Segment, steps: readonly Step[]) => Promise<StepsResult>;
  /** Step boundary, at which a run pauses or is cancelled. */
  readonly boundary: () => Promise<'go_on' | 'cancelled'>;
  readonly writer: StreamWriter<UnnumberedRunEvent>;
  /** Stored step rows of this cycle, by step id. */
  readonly records: Map<string, StepRow>;
  readonly requests: RunRequests;
  /** Aborted when the host stops. */
  readonly stopping: AbortSignal;
}
