import { constants, DatabaseSync } from 'node:sqlite';
import type { ReadableRack } from '../types.ts';
import { eventColumns } from '../surfaces/transcript.ts';
import { queryTimeout, unavailable } from './errors.ts';
import { timeCheckFunction } from './time-check.ts';
import type { ReadRequest, ReaderThreadData } from './messages.ts';
import { toObserveError, identityOf, openReadOnly, openWithFallback } from './read-only-file.ts';
import { RowCollector } from './row-collector.ts';
import { sqliteFunctions } from './sqlite-functions.ts';
import { fileSize } from '../../store/sqlite-read-only.ts';

/** Attempts at reading a file that changes meanwhile. */
const maxAttempts = 3;

/**
 * A read-only SQLite database. Files are opened read-only, and an authorizer allows only reading and harmless
 * functions.
 */
export class ReadOnlyDatabase {
  readonly #path: string | null;
  readonly #untouched: boolean;
  #openDatabase:
    | { readonly db: DatabaseSync; readonly frozen: boolean; readonly identity: string }
    | undefined;
  /** Deadline of the current statement, on the clock of `performance.now()`. */
  #deadline = Infinity;

  constructor({ path, untouched }: ReaderThreadData) {
    this.#path = path;
    this.#untouched = untouched;
  }

  /** @throws ObserveError over_budget; unavailable */
  read(question: ReadRequest): Record<string, unknown>[] {
    this.#deadline = performance.now() + question.budgetMs;
    for (let attempt = 1; ; attempt += 1) {
      const rows = this.#readOnce(question);
      if (rows) return rows;
      if (attempt === maxAttempts)
        throw unavailable(`${this.#path ?? 'the racks'}: changed while being read; try again`);
    }
  }

  /** Undefined if a file that was opened as immutable changed meanwhile: the rows may mix two of its states. */
  #readOnce({ sql, parameters, racks, budgetMs }: ReadRequest): Record<string, unknown>[] | undefined {
    const db = this.#currentDatabase();
    const frozen = new Map<string, string>();
    if (this.#path !== null && this.#openDatabase?.frozen)
      frozen.set(this.#path, this.#openDatabase.identity);
    try {
      for (const rack of racks) {
        // A history that is being created is an empty file, and then one without tables, for a moment.
        if (fileSize(rack.path) === 0) {
          attachEmptyRack(db, rack);
          continue;
        }
        const identity = identityOf(rack.path, true);
        if (attachRack(db, rack, this.#untouched)) frozen.set(rack.path, identity);
        if (hasEvents(db, rack)) continue;
        db.prepare('detach ?').run(rack.rack);
        attachEmptyRack(db, rack);
      }
      db.setAuthorizer(authorizeRead);
      const rows = this.#rows(db, sql, parameters, budgetMs);
      return [...frozen].every(([path, before]) => identityOf(path, true) === before) ? rows : undefined;
    } catch (error) {
      if (error instanceof DeadlineExceeded) throw queryTimeout(budgetMs);
      throw toObserveError(error, this.#path ?? 'of the racks');
    } finally {
      this.#detach(db, racks);
    }
  }

  #rows(
    db: DatabaseSync,
    sql: string,
    parameters: ReadRequest['parameters'],
    budgetMs: number,
  ): Record<string, unknown>[] {
    const statement = db.prepare(sql);
    statement.setReadBigInts(true);
    const rows = new RowCollector();
    // Numbers are bound as floating point on purpose: for a limit that is a small integer SQLite assumes that sorting
    // is cheap, and then reads and sorts a whole table instead of using an index.
    for (const row of statement.iterate(...parameters)) {
      if (performance.now() > this.#deadline) throw queryTimeout(budgetMs);
      rows.add(row);
    }
    return rows.all;
  }

  /** Detaches racks after each statement, so that an open reader does not keep a purged history file alive. */
  #detach(db: DatabaseSync, racks: readonly ReadableRack[]): void {
    db.setAuthorizer(null);
    if (racks.length === 0) return;
    try {
      for (const { name } of attachedDatabases(db))
        if (racks.some(({ rack }) => rack === name)) db.prepare('detach ?').run(name);
    } catch {
      this.#close();
    }
  }

  /** The open database. It is opened again if the file was replaced. */
  #currentDatabase(): DatabaseSync {
    const known = this.#openDatabase;
    if (this.#path === null) return known?.db ?? this.#setOpen(openEmptyDatabase(), false, '');
    if (known && identityOf(this.#path, known.frozen) === known.identity) return known.db;
    this.#close();
    const { db, frozen } = openReadOnly(this.#path, this.#untouched);
    return this.#setOpen(db, frozen, identityOf(this.#path, frozen));
  }

  #setOpen(db: DatabaseSync, frozen: boolean, identity: string): DatabaseSync {
    db.exec('pragma temp_store = memory; pragma query_only = on');
    db.function(timeCheckFunction, () => {
      if (performance.now() > this.#deadline) throw new DeadlineExceeded();
      return 1;
    });
    this.#openDatabase = { db, frozen, identity };
    return db;
  }

  #close(): void {
    this.#openDatabase?.db.close();
    this.#openDatabase = undefined;
  }
}

class DeadlineExceeded extends Error {}

/** Empty main database for reading racks only. */
const openEmptyDatabase = () => new DatabaseSync(':memory:');

const attachedDatabases = (db: DatabaseSync) =>
  db.prepare('pragma database_list').all() as { name: string }[];

/** @returns whether the file is opened as immutable */
function attachRack(db: DatabaseSync, { rack, path }: ReadableRack, untouched: boolean): boolean {
  return openWithFallback(path, untouched, ({ uri, isImmutable: frozen }) => {
    db.prepare('attach ? as ?').run(uri, rack);
    return frozen;
  });
}

const hasEvents = (db: DatabaseSync, { rack }: ReadableRack): boolean =>
  db.prepare(`select 1 from "${rack}".sqlite_master where name = 'events'`).get() !== undefined;

/** A history without events, in memory. Connections that only read cannot make a table there, so another one does. */
const emptyHistory = 'file:lathe-empty-history?mode=memory&cache=shared';
let emptyHistoryOwner: DatabaseSync | undefined;

/** Attaches a history without events in place of the file. */
function attachEmptyRack(db: DatabaseSync, { rack }: ReadableRack): void {
  if (!emptyHistoryOwner) {
    emptyHistoryOwner = new DatabaseSync(emptyHistory);
    emptyHistoryOwner.exec(`create table if not exists events (${eventColumns.join(', ')})`);
  }
  db.prepare('attach ? as ?').run(emptyHistory, rack);
}

function authorizeRead(action: number, _subject: string | null, name: string | null): number {
  if (action === constants.SQLITE_SELECT || action === constants.SQLITE_READ) return constants.SQLITE_OK;
  if (action === constants.SQLITE_FUNCTION && name !== null && sqliteFunctions.has(name.toLowerCase()))
    return constants.SQLITE_OK;
  return constants.SQLITE_DENY;
}
