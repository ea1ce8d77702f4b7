import type { Store } from '../store/index.ts';
import type { Sink, Work } from '../watch/index.ts';
import { rowOf } from './completion-row.ts';
import { Gaps } from './gaps.ts';
import { type FeedRow, type Surface, timeOf, writeRows } from './rows.ts';

export interface FeedOptions {
  readonly store: Pick<Store, 'endpointId' | 'transaction'>;
  /** Called once per database outage. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** Maximum rows in memory. */
const most = 10_000;
/** How long the first row of a batch waits for others. */
const patienceMs = 1000;
/** Rows per transaction. */
const together = 200;
/** Maximum delay between attempts while the database fails. */
const longestPause = 30_000;

/**
 * Writes the rows of the observe plane to the database in batches: one a second, and full batches at once. `add` never
 * waits and never throws. Rows stay in memory while the database fails; dropped rows are recorded as gaps.
 */
export class Feed implements Sink {
  readonly #store: FeedOptions['store'];
  readonly #onFault: FeedOptions['onFault'];
  /** Rows to write, oldest first. */
  #waiting: FeedRow[] = [];
  readonly #gaps = new Gaps();
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor({ store, onFault }: FeedOptions) {
    this.#store = store;
    this.#onFault = onFault;
  }

  ended(work: Work): void {
    const row = rowOf(work);
    if (row) this.add('completions', row);
  }

  add<S extends Surface>(surface: S, row: Extract<FeedRow, { surface: S }>['row']): void {
    if (this.#closed) return;
    this.#waiting.push({ surface, row } as FeedRow);
    this.#makeRoom();
    this.#schedule();
  }

  /** Writes the waiting rows now. Resolves even if the database fails. */
  async flushed(): Promise<void> {
    await this.#writing;
    await this.#write(1);
  }

  /** Writes the waiting rows; rows added later are ignored. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.flushed();
    const lost = this.#waiting.length;
    if (lost > 0) this.#onFault('feed', new Error(`${lost} rows could not be written before the end`));
  }

  #makeRoom(): void {
    while (this.#waiting.length > most) {
      const { surface, row } = this.#waiting.shift() as FeedRow;
      const reason = this.#failures > 0 ? 'database_failed' : 'overload';
      this.#gaps.add(surface, reason, timeOf(row));
    }
  }

  #schedule(): void {
    if (this.#writing || this.#closed || (this.#waiting.length === 0 && this.#gaps.isEmpty)) return;
    const isFull = this.#waiting.length >= together && this.#failures === 0;
    if (this.#timer && !isFull) return;
    clearTimeout(this.#timer);
    const pause = Math.min(patienceMs * 2 ** this.#failures, longestPause);
    this.#timer = setTimeout(() => void this.#write(together), isFull ? 0 : pause);
    this.#timer.unref();
  }

  /** @param minRows writes another batch while at least this many rows wait */
  #write(least: number): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeBatches(least).finally(() => {
      this.#writing = undefined;
      this.#schedule();
    });
    return this.#writing;
  }

  async #writeBatches(least: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#gaps.isEmpty) return;
    do {
      const rows = this.#waiting.splice(0, together);
      const gaps = this.#gaps.take();
      try {
        await this.#store.transaction((tx) => writeRows(tx, this.#store.endpointId, rows, gaps));
        this.#failures = 0;
      } catch (error) {
        if (this.#failures === 0) this.#onFault('feed', error);
        this.#failures = Math.min(this.#failures + 1, 30);
        this.#waiting = [...rows, ...this.#waiting];
        this.#gaps.putBack(gaps);
        this.#makeRoom();
        return;
      }
    } while (this.#waiting.length >= least);
  }
}
