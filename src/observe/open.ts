import { StoreError } from '../store/errors.ts';
import { answerTo, emptyAnswer, isOverTime } from './envelope.ts';
import { ObserveError } from './errors.ts';
import { ofRecorder, openRacks, redactedIn } from './histories.ts';
import type { Means } from './means.ts';
import { checked } from './query/check.ts';
import { shownSchema } from './query/kinds.ts';
import type { CheckedQuery } from './query/types.ts';
import { asked, shownQuestions } from './questions/index.ts';
import { unreadable } from './readers/failures.ts';
import { PostgresReader } from './readers/postgres-reader.ts';
import { SqliteReader } from './readers/sqlite-reader.ts';
import { surfaceOf, surfaces } from './surfaces/index.ts';
import { Turns } from './turns.ts';
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
interface Source {
  readonly reader: Reader;
  readonly turns: Turns;
}
const queriesWaiting = 32;
const maxWaitMs = 10_000;
const sourceOf = (reader: Reader, waitMs: number): Source => ({
  reader,
  turns: new Turns({ atOnce: reader.kind === 'postgres' ? 2 : 1, mostWaiting: queriesWaiting, waitMs }),
});

/** The observe plane without HTTP: read-only queries over the host's database and the racks. */
export class Observe {
  readonly #main: Source;
  /** Reader of racks, which are SQLite files whatever the main database is. */
  readonly #racks: Source;
  readonly #transcripts: Transcripts | undefined;
  readonly #now: () => Date;
  readonly #budgetMs: number;

  /** The database is opened by the first query. @throws ObserveError unavailable, if the URL is not valid */
  static async open(options: ObserveOptions): Promise<Observe> {
    const { database, worker: entry, untouched, waitMs = maxWaitMs } = options;
    const path = /^sqlite:(.+)$/s.exec(database)?.[1];
    if (path !== undefined) {
      const source = sourceOf(new SqliteReader({ path, entry, untouched }), waitMs);
      return new Observe(options, source, source);
    }
    return new Observe(
      options,
      sourceOf(postgresAt(database), waitMs),
      sourceOf(new SqliteReader({ path: null, entry, untouched }), waitMs),
    );
  }

  private constructor(
    { transcripts, now = () => new Date(), budgetMs = 1000 }: ObserveOptions,
    main: Source,
    racks: Source,
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
      questions: shownQuestions(),
    } as const;
  }

  /** @throws ObserveError not_found */
  schema(name: string) {
    const surface = surfaceOf(name);
    const { description, time, key } = surface;
    return { contract: 1, surface: name, description, time, key, columns: shownSchema(surface) } as const;
  }

  /**
   * @param by the caller, as `acts.by` in src/store/schema.ts
   * @throws ObserveError invalid, with all violations; over_budget, unavailable
   */
  async query(body: unknown, by: string): Promise<ObserveEnvelope> {
    return await this.#answer(checked(body), by);
  }

  /** Runs a named question. @throws ObserveError not_found, and as `query` */
  async ask(name: string, body: unknown, by: string): Promise<ObserveEnvelope> {
    return await this.#answer(checked(asked(name, body)), by);
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.reader.close(), this.#racks.reader.close()]);
  }

  #answer(query: CheckedQuery, by: string): Promise<ObserveEnvelope> {
    const { surface } = query;
    const source = surface.source === 'racks' ? this.#racks : this.#main;
    return source.turns.take(async () => {
      const begun = performance.now();
      const now = this.#now();
      const means = { reader: source.reader, now, budgetMs: this.#budgetMs, racks: [] };
      const { redactions = [], ...parts } =
        surface.source === 'racks'
          ? await this.#ofRacks(query, means, by)
          : await ofTables(query, means, surface.source.tables);
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

  async #ofRacks(query: CheckedQuery, means: Means, by: string): Promise<Parts> {
    const transcripts = this.#transcripts;
    if (!transcripts) return emptyAnswer(query, 'there is no recorder, so nothing was recorded');
    for (let attempt = 1; ; attempt += 1) {
      const { racks, withheld } = await openRacks(transcripts, by);
      if (racks.length === 0)
        return { ...emptyAnswer(query, 'there is no rack that you can read'), redactions: withheld };
      try {
        const begun = performance.now();
        const answer = await answerTo(query, { ...means, racks });
        const left = this.#budgetMs - (performance.now() - begun);
        const { redactions, warnings } = await redacted(query, { ...means, racks, budgetMs: left });
        const read = racks.map(({ rack }) => rack);
        await ofRecorder(() => transcripts.read(by, read, answer.rows.length));
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

type Parts = Omit<ReturnType<typeof emptyAnswer>, 'redactions'> &
  Partial<Pick<ObserveEnvelope, 'redactions'>>;

async function ofTables(query: CheckedQuery, means: Means, tables: readonly string[]): Promise<Parts> {
  if (await means.reader.has(tables)) return await answerTo(query, means);
  const { name } = query.surface;
  return emptyAnswer(
    query,
    name === 'gateway_requests'
      ? 'no gateway uses this database, so there are no requests'
      : `this database is older than the surface ${name} and has no data for it: start the host on it once`,
  );
}

/** Counts redactions in the matching rows. Without time left, a warning says so. */
async function redacted(query: CheckedQuery, means: Means) {
  try {
    if (means.budgetMs > 2) return { redactions: await redactedIn(query, means), warnings: [] };
  } catch (error) {
    if (!isOverTime(error)) throw error;
  }
  return {
    redactions: [],
    warnings: ['there was no time left to count redactions: use a shorter range of at'],
  };
}

function postgresAt(url: string): PostgresReader {
  if (!/^postgres(?:ql)?:/.test(url))
    throw unreadable('unknown kind of database: expected sqlite:PATH or postgres://USER@HOST/DATABASE');
  try {
    return new PostgresReader(url);
  } catch (error) {
    throw error instanceof StoreError ? unreadable(error.message) : error;
  }
}
