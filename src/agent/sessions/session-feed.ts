import type { Store } from '../../store/index.ts';
import type { LiveSessionSource } from '../services.ts';
import type { Session } from '../shapes/session.ts';
import { finishedRuns, finishedTasks } from './history.ts';

export interface SessionFeedOptions {
  readonly store: Store;
  readonly tasks: LiveSessionSource;
  readonly runs: LiveSessionSource;
  readonly external: LiveSessionSource;
  /** False: cancelled runs are shown as failed. */
  readonly cancelledState: boolean;
  /** Start time of the host. */
  readonly startedAt: Date;
}

/** Id of the host's own row. */
export const hostRowId = 'host';

/** The session feed: everything that runs on this host, and its history. */
export class SessionFeed {
  readonly #options: SessionFeedOptions;

  constructor(options: SessionFeedOptions) {
    this.#options = options;
  }

  /**
   * Live tasks and runs, newest first; external sessions; the host; then ended tasks and runs, newest first. Rejects
   * when any of them cannot be read.
   * @param limit maximum rows of ended sessions
   */
  async listRows(limit: number): Promise<Session[]> {
    const { store, tasks, runs, external, cancelledState } = this.#options;
    // Live rows are read first: a session that ends in between is then in both lists, not in neither.
    const liveRows = [...(await tasks.live()), ...(await runs.live())].sort(newestFirst);
    const externalRows = await external.live();
    const ended = [...(await finishedTasks(store, limit)), ...(await finishedRuns(store, limit))]
      .sort(newestFirst)
      .slice(0, limit);
    const endedIds = new Set(ended.map(({ id }) => id));
    const feedRows = [
      ...liveRows.filter(({ id }) => !endedIds.has(id)),
      ...externalRows,
      this.#hostRow(),
      ...ended,
    ];
    if (cancelledState) return feedRows;
    return feedRows.map((row) => (row.state === 'cancelled' ? { ...row, state: 'failed' } : row));
  }

  #hostRow(): Session {
    return {
      id: hostRowId,
      kind: 'host',
      title: 'this host',
      state: 'running',
      started_at: this.#options.startedAt.toISOString(),
      cancellable: false,
    };
  }
}

/** Rows of the same millisecond are ordered by their ids, which increase. */
function newestFirst(a: Session, b: Session): number {
  if (a.started_at !== b.started_at) return a.started_at < b.started_at ? 1 : -1;
  return b.id.length - a.id.length || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}
