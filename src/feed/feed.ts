import type { Store } from '../store/index.ts';
import type { Sink, Work } from '../watch/index.ts';
import { rowOf } from './completion-row.ts';
import { Gaps } from './gaps.ts';
import { type FeedRow, type Surface, timeOf, writeRows } from './rows.ts';

export interface FeedOptions {
  readonly store: Pick<Store, 'endpointId' | 'transaction'>;
  /** Hears once of every time that the database fails. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** Rows that wait for the database at the most. */
const most = 10_000;
/** How long the first row waits for others, in ms. */
const patienceMs = 1000;
/** Rows of a transaction. */
const together = 200;
/** Between tries while the database fails, in ms. */
const longestPause = 30_000;

/**
 * Writes what happened into the database, in batches: at most one a second, but for full ones. Who tells it never waits
 * and never hears of trouble: the rows are kept as long as there is room, and what had to be dropped is told as a gap.
 */
export class Feed implements Sink {
  readonly #store: FeedOptions['store'];
  readonly #onFault: FeedOptions['onFault'];
  /** The oldest first. */
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

  /** Writes what waits now. Resolves also where the database fails. */
  async flushed(): Promise<void> {
    await this.#writing;
    await this.#write(1);
  }

  /** Writes what waits; what comes later is not heard. */
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

  /** @param least a further batch has so many rows at least */
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
