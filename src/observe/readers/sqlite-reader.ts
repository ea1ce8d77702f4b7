import { ObserveError } from '../errors.ts';
import { Turns } from '../turns.ts';
import type { Compiled, ReadableRack, Reader } from '../types.ts';
import { closed, overBudget } from './failures.ts';
import type { ThreadData } from './messages.ts';
import { ReadingThread } from './thread.ts';

/** Threads that are still in a statement whose time was over. */
const mostGivenUp = 2;
/** A statement that ends by itself in time spares its thread; in ms. */
const grace = 25;
const mostWaiting = 32;

/**
 * Reads an SQLite file, and racks, in a thread of its own, so that nobody else waits meanwhile. SQLite cannot be told to
 * stop from outside: a thread that is late is left to itself, and another one takes its place.
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
   * @param path of the main database; null where only racks are read
   * @param untouched nothing is made or mended beside it
   * @param entry path of `observe-worker`
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
        `${mostGivenUp} statements that took too long are still coming to their end: ask again in a moment`,
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

  /** Does not wait for what was given up. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread?.end();
  }
}
