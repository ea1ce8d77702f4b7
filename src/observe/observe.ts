import { StoreError } from '../store/errors.ts';
import { runQuery, emptyResponse, isQueryTimeout } from './envelope.ts';
import { ObserveError } from './errors.ts';
import { withRecorderErrors, openRacks, countRedactions } from './readable-racks.ts';
import type { QueryContext } from './query-context.ts';
import { checkQuery } from './query/check-query.ts';
import { describeColumns } from './query/column-operations.ts';
import type { CheckedQuery } from './query/types.ts';
import { buildQuestionQuery, describeQuestions } from './questions/index.ts';
import { unavailable } from './readers/errors.ts';
import { PostgresReader } from './readers/postgres-reader.ts';
import { SqliteReader } from './readers/sqlite-reader.ts';
import { getSurface, surfaces } from './surfaces/index.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import type { ObserveEnvelope, Reader, Transcripts } from './types.ts';

export interface ObserveOptions {
  /** `sqlite:PATH` or `postgres://...`. It is never written. */
  readonly database: string;
  /** Path of the worker's entry file. */
  readonly worker: string;
  /** Read SQLite files without creating or repairing side files, for a host that is not running. */
  readonly untouched?: boolean | undefined;
  /** Source of the surface `transcript`, which is empty without it. */
  readonly transcripts?: Transcripts | undefined;
  readonly now?: (() => Date) | undefined;
  /** Time budget of all statements of one query together. */
  readonly budgetMs?: number | undefined;
  /** Maximum time of a query in the queue; default 10 s. */
  readonly waitMs?: number | undefined;
}

/** A reader with its queue. A query has the reader for itself, so that its time budget is not used by others. */
interface QueuedReader {
  readonly reader: Reader;
  readonly queue: ConcurrencyLimiter;
}
const maxQueuedQueries = 32;
const maxWaitMs = 10_000;
const createQueuedReader = (reader: Reader, waitMs: number): QueuedReader => ({
  reader,
  queue: new ConcurrencyLimiter({
    maxConcurrent: reader.kind === 'postgres' ? 2 : 1,
    maxWaiting: maxQueuedQueries,
    waitMs,
  }),
});

/** The observe plane without HTTP: read-only queries over the host's database and the racks. */
export class Observe {
  readonly #main: QueuedReader;
  /** Reader of racks, which are SQLite files whatever the main database is. */
  readonly #racks: QueuedReader;
  readonly #transcripts: Transcripts | undefined;
  readonly #now: () => Date;
  readonly #budgetMs: number;

  /** The database is opened by the first query. @throws ObserveError unavailable, if the URL is not valid */
  static async open(options: ObserveOptions): Promise<Observe> {
    const { database, worker: entry, untouched, waitMs = maxWaitMs } = options;
    const path = /^sqlite:(.+)$/s.exec(database)?.[1];
    if (path !== undefined) {
      const source = createQueuedReader(new SqliteReader({ path, entry, untouched }), waitMs);
      return new Observe(options, source, source);
    }
    return new Observe(
      options,
      createQueuedReader(openPostgres(database), waitMs),
      createQueuedReader(new SqliteReader({ path: null, entry, untouched }), waitMs),
    );
  }

  private constructor(
    { transcripts, now = () => new Date(), budgetMs = 1000 }: ObserveOptions,
    main: QueuedReader,
    racks: QueuedReader,
  ) {
    this.#main = main;
    this.#racks = racks;
    this.#transcripts = transcripts;
    this.#now = now;
    this.#budgetMs = budgetMs;
  }

  surfaces() {
    return {
      contract: 1,
      surfaces: surfaces.map(({ name, description, time, columns }) => ({
        name,
        description,
        time,
        columns: columns.length,
      })),
      questions: describeQuestions(),
    } as const;
  }

  /** @throws ObserveError not_found */
  schema(name: string) {
    const surface = getSurface(name);
    const { description, time, key } = surface;
    return { contract: 1, surface: name, description, time, key, columns: describeColumns(surface) } as const;
  }

  /**
   * @param by the caller, as `acts.by` in src/store/schema.ts
   * @throws ObserveError invalid, with all violations; over_budget, unavailable
   */
  async query(body: unknown, by: string): Promise<ObserveEnvelope> {
    return await this.#runQueued(checkQuery(body), by);
  }

  /** Runs a named question. @throws ObserveError not_found, and as `query` */
  async ask(name: string, body: unknown, by: string): Promise<ObserveEnvelope> {
    return await this.#runQueued(checkQuery(buildQuestionQuery(name, body)), by);
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.reader.close(), this.#racks.reader.close()]);
  }

  #runQueued(query: CheckedQuery, by: string): Promise<ObserveEnvelope> {
    const { surface } = query;
    const source = surface.source === 'racks' ? this.#racks : this.#main;
    return source.queue.run(async () => {
      const begun = performance.now();
      const now = this.#now();
      const queryContext = { reader: source.reader, now, budgetMs: this.#budgetMs, racks: [] };
      const { redactions = [], ...parts } =
        surface.source === 'racks'
          ? await this.#queryRacks(query, queryContext, by)
          : await queryTables(query, queryContext, surface.source.tables);
      return {
        contract: 1,
        surface: surface.name,
        query: query.query,
        as_of: now.toISOString(),
        ...parts,
        redactions,
        elapsed_ms: Math.round((performance.now() - begun) * 10) / 10,
      };
    });
  }

  async #queryRacks(query: CheckedQuery, queryContext: QueryContext, by: string): Promise<ResponseParts> {
    const transcripts = this.#transcripts;
    if (!transcripts) return emptyResponse(query, 'there is no recorder, so nothing was recorded');
    for (let attempt = 1; ; attempt += 1) {
      const { racks, withheld } = await openRacks(transcripts, by);
      if (racks.length === 0)
        return { ...emptyResponse(query, 'there is no rack that you can read'), redactions: withheld };
      try {
        const begun = performance.now();
        const answer = await runQuery(query, { ...queryContext, racks });
        const left = this.#budgetMs - (performance.now() - begun);
        const { redactions, warnings } = await countRedactedRows(query, {
          ...queryContext,
          racks,
          budgetMs: left,
        });
        const read = racks.map(({ rack }) => rack);
        await withRecorderErrors(() => transcripts.read(by, read, answer.rows.length));
        return {
          ...answer,
          redactions: [...withheld, ...redactions],
          warnings: [...answer.warnings, ...warnings],
        };
      } catch (error) {
        // Retry once: a purge may have replaced a history file.
        if (attempt > 1 || !(error instanceof ObserveError && error.code === 'database_unavailable'))
          throw error;
      }
    }
  }
}

type ResponseParts = Omit<ReturnType<typeof emptyResponse>, 'redactions'> &
  Partial<Pick<ObserveEnvelope, 'redactions'>>;

async function queryTables(
  query: CheckedQuery,
  queryContext: QueryContext,
  tables: readonly string[],
): Promise<ResponseParts> {
  if (await queryContext.reader.has(tables)) return await runQuery(query, queryContext);
  const { name } = query.surface;
  return emptyResponse(
    query,
    name === 'gateway_requests'
      ? 'no gateway uses this database, so there are no requests'
      : `this database is older than the surface ${name} and has no data for it: start the host on it once`,
  );
}

/** Counts redactions in the matching rows. Without time left, a warning says so. */
async function countRedactedRows(query: CheckedQuery, queryContext: QueryContext) {
  try {
    if (queryContext.budgetMs > 2)
      return { redactions: await countRedactions(query, queryContext), warnings: [] };
  } catch (error) {
    if (!isQueryTimeout(error)) throw error;
  }
  return {
    redactions: [],
    warnings: ['there was no time left to count redactions: use a shorter range of at'],
  };
}

function openPostgres(url: string): PostgresReader {
  if (!/^postgres(?:ql)?:/.test(url))
    throw unavailable('unknown kind of database: expected sqlite:PATH or postgres://USER@HOST/DATABASE');
  try {
    return new PostgresReader(url);
  } catch (error) {
    throw error instanceof StoreError ? unavailable(error.message) : error;
  }
}
