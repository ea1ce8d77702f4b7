import type { EventLog } from '../../event-log.ts';
import type { Clock } from '../../clock.ts';
import type { Planners } from '../../planner.ts';
import type { Agents, Changes, Receipts, StoreSessions, Turns } from '../../services.ts';
import type { HostView } from '../definition/conditions.ts';
import type { StoredSignals } from '../../signals.ts';
import type { Store } from '../../../store/index.ts';
import type { Watch } from '../../../watch/index.ts';
import type { Showing } from './records.ts';

/** Intervals and delays. */
export interface Pace {
  /** Time after which a paused run resumes. */
  readonly autoResumeMs: number;
  /** Maximum time between two readings of the wall clock, because it may jump. */
  readonly checkMs: number;
  /** Interval of polling for signals. */
  readonly signalMs: number;
  /** Delay before a failed database operation is retried. */
  readonly storeMs: number;
}

export const usualPace: Pace = { autoResumeMs: 300_000, checkMs: 30_000, signalMs: 500, storeMs: 2000 };

/** Services that runs use. */
export interface RunWorld extends Showing {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: EventLog;
  readonly turns: Turns;
  readonly changes: Pick<Changes, 'ask' | 'discard' | 'decision'>;
  readonly agents: Agents;
  readonly sessions: Pick<StoreSessions, 'open' | 'close'>;
  readonly receipts: Pick<Receipts, 'add'>;
  readonly signals: StoredSignals;
  readonly planners: Pick<Planners, 'find'>;
  /** Reads the state of the host, for conditions. */
  readonly host: () => Promise<HostView>;
  readonly pace: Pace;
  readonly watch: Watch;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
}
