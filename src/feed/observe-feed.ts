import type { Store } from '../store/index.ts';
import type { AttemptEvent, GatewayObserver, TraceSink, TraceSpan } from '../tracing/index.ts';
import { toCompletionRow } from './completion-row.ts';
import { GapList } from './gaps.ts';
import { type ObserveRow, type Surface, rowTime, writeRows } from './rows.ts';
import { toAttemptRow, toToolRow } from './span-row.ts';

export interface ObserveFeedOptions {
  readonly store: Pick<Store, 'endpointId' | 'transaction'>;
  /** Called once per database outage. */
  readonly onFault: (where: string, error: unknown) => void;
}

/** Maximum rows in memory. */
const maxWaitingRows = 10_000;
/** How long the first row of a batch waits for others. */
const flushDelayMs = 1000;
/** Rows per transaction. */
const batchSize = 200;
/** Maximum delay between attempts while the database fails. */
const maxRetryDelayMs = 30_000;

/**
 * Writes the rows of the observe plane to the database in batches: one a second, and full batches at once. `add` never
 * waits and never throws. Rows stay in memory while the database fails; dropped rows are recorded as gaps.
 */
export class ObserveFeed implements TraceSink, GatewayObserver {
  readonly #store: ObserveFeedOptions['store'];
  readonly #onFault: ObserveFeedOptions['onFault'];
  /** Rows to write, oldest first. */
  #waiting: ObserveRow[] = [];
  readonly #gaps = new GapList();
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #closed = false;

  constructor({ store, onFault }: ObserveFeedOptions) {
    this.#store = store;
    this.#onFault = onFault;
  }

  onEnd(work: TraceSpan): void {
    const row = toCompletionRow(work);
    if (row) this.add('completions', row);
    const toolRow = toToolRow(work);
    if (toolRow) this.add('spans', toolRow);
  }

  readonly onAttempt = (event: AttemptEvent): void => {
    const row = toAttemptRow(event);
    if (row) this.add('spans', row);
  };

  add<S extends Surface>(surface: S, row: Extract<ObserveRow, { surface: S }>['row']): void {
    if (this.#closed) return;
    this.#waiting.push({ surface, row } as ObserveRow);
    this.#dropOldest();
    this.#schedule();
  }

  /** Writes the waiting rows now. Resolves even if the database fails. */
  async flush(): Promise<void> {
    await this.#writing;
    await this.#write(1);
  }

  /** Writes the waiting rows; rows added later are ignored. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.flush();
    const lostRows = this.#waiting.length;
    if (lostRows > 0)
      this.#onFault('feed', new Error(`${lostRows} rows could not be written before the end`));
  }

  #dropOldest(): void {
    while (this.#waiting.length > maxWaitingRows) {
      const { surface, row } = this.#waiting.shift() as ObserveRow;
      const reason = this.#failures > 0 ? 'database_failed' : 'overload';
      this.#gaps.add(surface, reason, rowTime(row));
    }
  }

  #schedule(): void {
    if (this.#writing || this.#closed || (this.#waiting.length === 0 && this.#gaps.isEmpty)) return;
    const isFull = this.#waiting.length >= batchSize && this.#failures === 0;
    if (this.#timer && !isFull) return;
    clearTimeout(this.#timer);
    const delayMs = Math.min(flushDelayMs * 2 ** this.#failures, maxRetryDelayMs);
    this.#timer = setTimeout(() => void this.#write(batchSize), isFull ? 0 : delayMs);
    this.#timer.unref();
  }

  /** @param minRows writes another batch while at least this many rows wait */
  #write(minRows: number): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeBatches(minRows).finally(() => {
      this.#writing = undefined;
      this.#schedule();
    });
    return this.#writing;
  }

  async #writeBatches(minRows: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#gaps.isEmpty) return;
    do {
      const rows = this.#waiting.splice(0, batchSize);
      const gaps = this.#gaps.take();
      try {
        await this.#store.transaction((tx) => writeRows(tx, this.#store.endpointId, rows, gaps));
        this.#failures = 0;
      } catch (error) {
        if (this.#failures === 0) this.#onFault('feed', error);
        this.#failures = Math.min(this.#failures + 1, 30);
        this.#waiting = [...rows, ...this.#waiting];
        this.#gaps.putBack(gaps);
        this.#dropOldest();
        return;
      }
    } while (this.#waiting.length >= minRows);
  }
}
