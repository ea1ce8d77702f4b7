import type { EventLog } from '../../event-log.ts';
import type { Clock } from '../../clock.ts';
import type { Planners } from '../../planner.ts';
import type { Agents, Changes, Receipts, StoreSessions, Turns } from '../../services.ts';
import type { HostView } from '../definition/conditions.ts';
import type { StoredSignals } from '../../signals.ts';
import type { Store } from '../../../store/index.ts';
import type { Watch } from '../../../watch/index.ts';
import type { Showing } from './records.ts';

/** How long things take that wait by themselves. */
export interface Pace {
  /** A paused run goes on after so long. */
  readonly autoResumeMs: number;
  /** The wall clock is looked at again at least so often, because it may jump. */
  readonly checkMs: number;
  /** Between two looks for signals. */
  readonly signalMs: number;
  /** Before something is tried again that the database refused. */
  readonly storeMs: number;
}

export const usualPace: Pace = { autoResumeMs: 300_000, checkMs: 30_000, signalMs: 500, storeMs: 2000 };

/** What runs are made of and live in. */
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
  /** For conditions. */
  readonly host: () => Promise<HostView>;
  readonly pace: Pace;
  readonly watch: Watch;
  /** Hears of what nobody foresaw. */
  readonly onFault: (where: string, error: unknown) => void;
}
