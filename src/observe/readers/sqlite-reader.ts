import { ObserveError } from '../errors.ts';
import { ConcurrencyLimiter } from '../concurrency-limiter.ts';
import type { CompiledQuery, ReadableRack, Reader } from '../types.ts';
import { databaseClosed, queryTimeout } from './errors.ts';
import type { ReaderThreadData } from './messages.ts';
import { ReaderThread } from './reader-thread.ts';

/** Maximum number of abandoned threads that still run a statement. */
const maxAbandonedThreads = 2;
/** Extra time for a statement to end by itself, which saves terminating its thread. */
const graceMs = 25;
const maxWaiting = 32;

/**
 * Reads an SQLite file and racks in a thread of its own, so that the event loop is not blocked. A running SQLite
 * statement cannot be interrupted from outside: a thread that exceeds its time is abandoned and replaced.
 */
export class SqliteReader implements Reader {
  readonly kind = 'sqlite';
  readonly #data: ReaderThreadData;
  readonly #entry: string;
  readonly #limiter = new ConcurrencyLimiter({ maxConcurrent: 1, maxWaiting });
  readonly #knownTables = new Set<string>();
  #thread: ReaderThread | undefined;
  #abandonedThreads = 0;
  #closed = false;

  /**
   * @param path path of the main database; null if only racks are read
   * @param untouched do not create or repair side files
   * @param entry path of the worker's entry file
   */
  constructor({
    path,
    untouched = false,
    entry,
  }: {
    readonly path: string | null;
    readonly untouched?: boolean | undefined;
    readonly entry: string;
  }) {
    this.#data = { path, untouched };
    this.#entry = entry;
  }

  read(
    { sql, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
    { budgetMs, racks = [] }: { readonly budgetMs: number; readonly racks?: readonly ReadableRack[] },
  ): Promise<Record<string, unknown>[]> {
    return this.#limiter.run(async () => {
      const thread = this.#currentThread();
      const reply = await thread.request({ sql, parameters, racks, budgetMs }, budgetMs + graceMs);
      if (reply === 'late') {
        this.#abandon(thread);
        throw queryTimeout(budgetMs);
      }
      if (!('failure' in reply)) return reply.rows;
      const { kind, code, message } = reply.failure;
      throw new ObserveError(kind, code, message);
    });
  }

  async has(tables: readonly string[]): Promise<boolean> {
    const unknown = tables.filter((table) => !this.#knownTables.has(table));
    if (unknown.length === 0) return true;
    const rows = await this.read(
      {
        sql: `select name from sqlite_schema where type in ('table', 'view') and name in (${unknown.map(() => '?').join(', ')})`,
        parameters: unknown,
      },
      { budgetMs: 1000 },
    );
    for (const { name } of rows) this.#knownTables.add(String(name));
    return rows.length === unknown.length;
  }

  #currentThread(): ReaderThread {
    if (this.#closed) throw databaseClosed();
    if (this.#thread?.isUsable) return this.#thread;
    if (this.#abandonedThreads >= maxAbandonedThreads)
      throw new ObserveError(
        'unavailable',
        'observe_busy',
        `${maxAbandonedThreads} statements that took too long are still running; try again in a moment`,
      );
    this.#thread = new ReaderThread(this.#entry, this.#data);
    return this.#thread;
  }

  #abandon(thread: ReaderThread): void {
    this.#abandonedThreads += 1;
    void thread.terminate().then(() => {
      this.#abandonedThreads -= 1;
    });
  }

  /** Closes the current thread. Does not wait for abandoned threads. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread?.terminate();
  }
}
