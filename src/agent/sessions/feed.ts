import type { Store } from '../../store/index.ts';
import type { LiveRows } from '../services.ts';
import type { Session } from '../shapes/session.ts';
import { finishedRuns, finishedTasks } from './history.ts';

export interface FeedOptions {
  readonly store: Store;
  readonly tasks: LiveRows;
  readonly runs: LiveRows;
  readonly external: LiveRows;
  /** False: cancelled runs are shown as failed. */
  readonly cancelledState: boolean;
  /** Of the host. */
  readonly startedAt: Date;
}

/** What the row of the host itself is called. */
export const hostRowId = 'host';

/** Everything at work here and everything that was: what people and consoles watch. */
export class Feed {
  readonly #options: FeedOptions;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /**
   * Tasks and runs at work, newest first; external sessions; the host; then what has ended, newest first.
   * Rejects where any of it cannot be read.
   * @param limit rows of what has ended
   */
  async rows(limit: number): Promise<Session[]> {
    const { store, tasks, runs, external, cancelledState } = this.#options;
    // The live ones first: what ends in between is then in both, rather than in neither.
    const live = [...(await tasks.live()), ...(await runs.live())].sort(newestFirst);
    const elsewhere = await external.live();
    const ended = [...(await finishedTasks(store, limit)), ...(await finishedRuns(store, limit))]
      .sort(newestFirst)
      .slice(0, limit);
    const over = new Set(ended.map(({ id }) => id));
    const rows = [...live.filter(({ id }) => !over.has(id)), ...elsewhere, this.#host(), ...ended];
    if (cancelledState) return rows;
    return rows.map((row) => (row.state === 'cancelled' ? { ...row, state: 'failed' } : row));
  }

  #host(): Session {
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

/** Those of the same millisecond by their ids, which count up. */
function newestFirst(a: Session, b: Session): number {
  if (a.started_at !== b.started_at) return a.started_at < b.started_at ? 1 : -1;
  return b.id.length - a.id.length || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}
