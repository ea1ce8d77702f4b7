import type { EventLog } from '../../event-log.ts';
import type { Clock } from '../../clock.ts';
import type { ChatModels } from '../../chat-model.ts';
import type {
  AgentStore,
  PendingChangeService,
  ReceiptStore,
  StoreSessions,
  TurnRunner,
} from '../../services.ts';
import type { HostState } from '../definition/conditions.ts';
import type { StoredSignals } from '../../signals.ts';
import type { Store } from '../../../store/index.ts';
import type { Tracer } from '../../../tracing/index.ts';
import type { PresentationOptions } from './run-records.ts';

/** Intervals and delays. */
export interface RunTimings {
  /** Time after which a paused run resumes. */
  readonly autoResumeMs: number;
  /** Maximum time between two readings of the wall clock, because it may jump. */
  readonly maxClockCheckMs: number;
  /** Interval of polling for signals. */
  readonly signalPollMs: number;
  /** Delay before a failed database operation is retried. */
  readonly storeRetryMs: number;
}

export const defaultTimings: RunTimings = {
  autoResumeMs: 300_000,
  maxClockCheckMs: 30_000,
  signalPollMs: 500,
  storeRetryMs: 2000,
};

/** Services that runs use. */
export interface RunServices extends PresentationOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: EventLog;
  readonly turnRunner: TurnRunner;
  readonly changes: Pick<PendingChangeService, 'ask' | 'discard' | 'decision'>;
  readonly agents: AgentStore;
  readonly sessions: Pick<StoreSessions, 'open' | 'close'>;
  readonly receipts: Pick<ReceiptStore, 'add'>;
  readonly signals: StoredSignals;
  readonly chatModels: Pick<ChatModels, 'find'>;
  /** Reads the state of the host, for conditions. */
  readonly readHostState: () => Promise<HostState>;
  readonly timings: RunTimings;
  readonly tracer: Tracer;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
}
