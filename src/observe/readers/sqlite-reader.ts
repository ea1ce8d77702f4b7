import { ObserveError } from '../errors.ts';
import { Turns } from '../turns.ts';
import type { Compiled, ReadableRack, Reader } from '../types.ts';
import { closed, overBudget } from './failures.ts';
import type { ThreadData } from './messages.ts';
import { ReadingThread } from './thread.ts';

/** Maximum number of abandoned threads that still run a statement. */
const mostGivenUp = 2;
/** Extra time for a statement to end by itself, which saves terminating its thread. */
const grace = 25;
const mostWaiting = 32;

/**
 * Reads an SQLite file and racks in a thread of its own, so that the event loop is not blocked. A running SQLite
 * statement cannot be interrupted from outside: a thread that exceeds its time is abandoned and replaced.
 */
export class SqliteReader implements Reader {
  readonly kind = 'sqlite';
  readonly #data: ThreadData;
  readonly #entry: string;
  readonly #turns = new Turns({ atOnce: 1, mostWaiting });
  readonly #known = new Set<string>();
  #thread: ReadingThread | undefined;
  #givenUp = 0;
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
    { sql, parameters }: Pick<Compiled, 'sql' | 'parameters'>,
    { budgetMs, racks = [] }: { readonly budgetMs: number; readonly racks?: readonly ReadableRack[] },
  ): Promise<Record<string, unknown>[]> {
    return this.#turns.take(async () => {
      const thread = this.#current();
      const reply = await thread.ask({ sql, parameters, racks, budgetMs }, budgetMs + grace);
      if (reply === 'late') {
        this.#giveUp(thread);
        throw overBudget(budgetMs);
      }
      if (!('failure' in reply)) return reply.rows;
      const { kind, code, message } = reply.failure;
      throw new ObserveError(kind, code, message);
    });
  }

  async has(tables: readonly string[]): Promise<boolean> {
    const unknown = tables.filter((table) => !this.#known.has(table));
    if (unknown.length === 0) return true;
    const rows = await this.read(
      {
        sql: `select name from sqlite_schema where type in ('table', 'view') and name in (${unknown.map(() => '?').join(', ')})`,
        parameters: unknown,
      },
      { budgetMs: 1000 },
    );
    for (const { name } of rows) this.#known.add(String(name));
    return rows.length === unknown.length;
  }

  #current(): ReadingThread {
    if (this.#closed) throw closed();
    if (this.#thread?.isUsable) return this.#thread;
    if (this.#givenUp >= mostGivenUp)
      throw new ObserveError(
        'unavailable',
        'observe_busy',
        `${mostGivenUp} statements that took too long are still running; try again in a moment`,
      );
    this.#thread = new ReadingThread(this.#entry, this.#data);
    return this.#thread;
  }

  #giveUp(thread: ReadingThread): void {
    this.#givenUp += 1;
    void thread.end().then(() => {
      this.#givenUp -= 1;
    });
  }

  /** Closes the current thread. Does not wait for abandoned threads. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread?.end();
  }
}
