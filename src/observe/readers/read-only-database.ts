import { constants, DatabaseSync } from 'node:sqlite';
import type { ReadableRack } from '../types.ts';
import { overBudget, unreadable } from './failures.ts';
import { inTime } from './in-time.ts';
import type { Question, ThreadData } from './messages.ts';
import { explain, identityOf, openReadOnly, openSome } from './read-only-file.ts';
import { Rows } from './rows.ts';
import { sqliteFunctions } from './sqlite-functions.ts';

/** Attempts at reading a file that changes meanwhile. */
const mostAttempts = 3;

/**
 * A read-only SQLite database. Files are opened read-only, and an authorizer allows only reading and harmless
 * functions.
 */
export class ReadOnlyDatabase {
  readonly #path: string | null;
  readonly #untouched: boolean;
  #open: { readonly db: DatabaseSync; readonly frozen: boolean; readonly identity: string } | undefined;
  /** Deadline of the current statement, on the clock of `performance.now()`. */
  #deadline = Infinity;

  constructor({ path, untouched }: ThreadData) {
    this.#path = path;
    this.#untouched = untouched;
  }

  /** @throws ObserveError over_budget; unavailable */
  read(question: Question): Record<string, unknown>[] {
    this.#deadline = performance.now() + question.budgetMs;
    for (let attempt = 1; ; attempt += 1) {
      const rows = this.#readOnce(question);
      if (rows) return rows;
      if (attempt === mostAttempts)
        throw unreadable(`${this.#path ?? 'the racks'}: changed while being read; try again`);
    }
  }

  /** Undefined if a file that was opened as immutable changed meanwhile: the rows may mix two of its states. */
  #readOnce({ sql, parameters, racks, budgetMs }: Question): Record<string, unknown>[] | undefined {
    const db = this.#current();
    const frozen = new Map<string, string>();
    if (this.#path !== null && this.#open?.frozen) frozen.set(this.#path, this.#open.identity);
    try {
      for (const rack of racks) {
        const identity = identityOf(rack.path, true);
        if (attach(db, rack, this.#untouched)) frozen.set(rack.path, identity);
      }
      db.setAuthorizer(onlyReading);
      const rows = this.#rows(db, sql, parameters, budgetMs);
      return [...frozen].every(([path, before]) => identityOf(path, true) === before) ? rows : undefined;
    } catch (error) {
      if (error instanceof Late) throw overBudget(budgetMs);
      throw explain(error, this.#path ?? 'of the racks');
    } finally {
      this.#detach(db, racks);
    }
  }

  #rows(
    db: DatabaseSync,
    sql: string,
    parameters: Question['parameters'],
    budgetMs: number,
  ): Record<string, unknown>[] {
    const statement = db.prepare(sql);
    statement.setReadBigInts(true);
    const rows = new Rows();
    // Numbers are bound as floating point on purpose: for a limit that is a small integer SQLite assumes that sorting
    // is cheap, and then reads and sorts a whole table instead of using an index.
    for (const row of statement.iterate(...parameters)) {
      if (performance.now() > this.#deadline) throw overBudget(budgetMs);
      rows.add(row);
    }
    return rows.all;
  }

  /** Detaches racks after each statement, so that an open reader does not keep a purged history file alive. */
  #detach(db: DatabaseSync, racks: readonly ReadableRack[]): void {
    db.setAuthorizer(null);
    if (racks.length === 0) return;
    try {
      for (const { name } of databasesOf(db))
        if (racks.some(({ rack }) => rack === name)) db.prepare('detach ?').run(name);
    } catch {
      this.#close();
    }
  }

  /** The open database. It is opened again if the file was replaced. */
  #current(): DatabaseSync {
    const known = this.#open;
    if (this.#path === null) return known?.db ?? this.#remember(openMemory(), false, '');
    if (known && identityOf(this.#path, known.frozen) === known.identity) return known.db;
    this.#close();
    const { db, frozen } = openReadOnly(this.#path, this.#untouched);
    return this.#remember(db, frozen, identityOf(this.#path, frozen));
  }

  #remember(db: DatabaseSync, frozen: boolean, identity: string): DatabaseSync {
    db.exec('pragma temp_store = memory; pragma query_only = on');
    db.function(inTime, () => {
      if (performance.now() > this.#deadline) throw new Late();
      return 1;
    });
    this.#open = { db, frozen, identity };
    return db;
  }

  #close(): void {
    this.#open?.db.close();
    this.#open = undefined;
  }
}

class Late extends Error {}

/** Empty main database for reading racks only. */
const openMemory = () => new DatabaseSync(':memory:');

const databasesOf = (db: DatabaseSync) => db.prepare('pragma database_list').all() as { name: string }[];

/** @returns whether the file is opened as immutable */
function attach(db: DatabaseSync, { rack, path }: ReadableRack, untouched: boolean): boolean {
  return openSome(path, untouched, ({ uri, frozen }) => {
    db.prepare('attach ? as ?').run(uri, rack);
    return frozen;
  });
}

function onlyReading(action: number, _subject: string | null, name: string | null): number {
  if (action === constants.SQLITE_SELECT || action === constants.SQLITE_READ) return constants.SQLITE_OK;
  if (action === constants.SQLITE_FUNCTION && name !== null && sqliteFunctions.has(name.toLowerCase()))
    return constants.SQLITE_OK;
  return constants.SQLITE_DENY;
}
