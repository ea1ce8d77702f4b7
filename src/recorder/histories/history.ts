import { statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { StoreError } from '../../store/index.ts';
import { explainFile, explainSqlite } from '../../store/sqlite-errors.ts';
import type { Retention } from '../types.ts';
import { makeHistoryFile } from './files.ts';
import type { StoredEvent } from './stored-event.ts';

/** Of a history. `from` and `to`: when the host received its oldest and its newest event. */
export interface Totals {
  readonly events: number;
  /** Of the stored texts, in UTF-8. */
  readonly bytes: number;
  readonly from: string | null;
  readonly to: string | null;
}

const version = 1;

/**
 * `seq` grows with `received_at`, so that the oldest events are the first ones. Ids are found by their hash: an index of
 * texts would be copied about in the file, and what is removed must be gone (src/recorder/histories/sweeping.ts).
 */
const tables = `
  create table events (
    seq integer primary key autoincrement,
    event_hash blob not null,
    bytes integer not null,
    received_at text not null,
    at text not null,
    source text not null,
    redacted integer not null,
    event_id text not null,
    kind text not null,
    subject text,
    role text,
    model text,
    attributes text,
    content text
  ) strict;
  create unique index events_by_hash on events (event_hash);
  create table totals (events integer not null, bytes integer not null, unclean integer not null) strict;
  insert into totals values (0, 0, 0);
  pragma user_version = ${version};
`;

/** How long somebody else, who only reads, may be in the way, in ms. */
const patience = 5000;

/** A rack's events in one SQLite file. Everything happens at once and on the calling thread. */
export class History {
  readonly path: string;
  readonly #db: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #file: number | undefined;
  /** The last time given to an event. */
  #last: string;

  /** Makes it where it is absent. @throws StoreError */
  static open(path: string): History {
    let db: DatabaseSync | undefined;
    try {
      makeHistoryFile(path);
      db = new DatabaseSync(path, { timeout: patience });
      // Room that is free is given back, and zeros stand where something was. What SQLite puts aside stays in memory.
      db.exec(
        'pragma auto_vacuum = incremental; pragma journal_mode = wal; pragma synchronous = full; pragma secure_delete = on; pragma temp_store = memory',
      );
      const known = db.prepare('pragma user_version').get()?.['user_version'];
      if (Number(known) > version)
        throw new StoreError(
          'storage_failed',
          `${path} was written by a newer lathe: start that version, or purge the rack`,
        );
      if (known === 0) db.exec(`begin immediate; ${tables} commit`);
      return new History(path, db);
    } catch (error) {
      db?.close();
      throw explained(error, path);
    }
  }

  private constructor(path: string, db: DatabaseSync) {
    this.path = path;
    this.#file = fileOf(path);
    this.#db = db;
    this.#insert = db.prepare(
      `insert into events (event_hash, bytes, received_at, at, source, redacted, event_id, kind, subject, role, model, attributes, content)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (event_hash) do nothing`,
    );
    this.#last = this.totals().to ?? '';
  }

  /**
   * All of it or nothing, on the disk when it returns. @throws StoreError
   * @param now RFC 3339 in UTC
   * @returns of each event whether it is new
   */
  add(events: readonly StoredEvent[], now: string): boolean[] {
    return this.transaction(() => {
      this.#setBack(now);
      let [added, bytes] = [0, 0];
      const isNew = events.map((event) => {
        const { changes } = this.#insert.run(
          event.hash,
          event.bytes,
          now,
          event.at,
          event.source,
          event.redacted,
          event.id,
          event.kind,
          event.subject,
          event.role,
          event.model,
          event.attributes,
          event.content,
        );
        if (changes === 0) return false;
        added++;
        bytes += event.bytes;
        return true;
      });
      if (added > 0)
        this.#db.prepare('update totals set events = events + ?, bytes = bytes + ?').run(added, bytes);
      return isNew;
    });
  }

  totals(): Totals {
    return this.#explained(() => totalsOf(this.#db));
  }

  /** The first event that stays, by all bounds; undefined where all of them stay. */
  firstToKeep({ days, bytes, events }: Retention, now: string): number | undefined {
    return this.transaction(() => {
      this.#setBack(now);
      const { events: count, bytes: size } = totalsOf(this.#db);
      const oldest = new Date(Date.parse(now) - days * 86_400_000).toISOString();
      let [tooMany, tooLarge] = [count - events, size - bytes];
      let removed = 0;
      for (const row of this.#db
        .prepare('select seq, bytes, received_at from events order by seq')
        .iterate()) {
        if (tooMany <= 0 && tooLarge <= 0 && String(row['received_at']) >= oldest)
          return removed === 0 ? undefined : Number(row['seq']);
        tooMany--;
        tooLarge -= Number(row['bytes']);
        removed++;
      }
      return removed === 0 ? undefined : Number.MAX_SAFE_INTEGER;
    });
  }

  transaction<T>(work: () => T): T {
    return this.#explained(() => {
      this.#db.exec('begin immediate');
      try {
        const result = work();
        this.#db.exec('commit');
        return result;
      } catch (error) {
        if (this.#db.isTransaction) this.#db.exec('rollback');
        throw error;
      }
    });
  }

  /** For what is done to the file as a whole. */
  run<T>(work: (db: DatabaseSync) => T): T {
    return this.#explained(() => work(this.#db));
  }

  /** Whether it is still what is read under its name: somebody may have removed it, and what is added would be lost. */
  get isThere(): boolean {
    return fileOf(this.path) === this.#file;
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  /**
   * When the clock went back, what came "later" came now: it would be kept for too long otherwise, and times would not
   * grow with `seq`.
   */
  #setBack(now: string): void {
    if (this.#last > now) {
      const before = this.#db
        .prepare('select seq from events where received_at <= ? order by seq desc limit 1')
        .get(now);
      this.#db
        .prepare('update events set received_at = ? where seq > ?')
        .run(now, Number(before?.['seq'] ?? 0));
    }
    this.#last = now;
  }

  #explained<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explained(error, this.path);
    }
  }
}

const fileOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;

function totalsOf(db: DatabaseSync): Totals {
  const totals = db.prepare('select events, bytes from totals').get();
  const time = (order: string) =>
    (db.prepare(`select received_at from events order by seq ${order} limit 1`).get()?.['received_at'] ??
      null) as string | null;
  return {
    events: Number(totals?.['events']),
    bytes: Number(totals?.['bytes']),
    from: time('asc'),
    to: time('desc'),
  };
}

/** Without keeping it open; also beside the host that has it. @throws StoreError */
export function readTotals(path: string): Totals {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 1000 });
    // Made, and nothing in it yet.
    if (db.prepare('pragma user_version').get()?.['user_version'] === 0) return nothing;
    return totalsOf(db);
  } catch (error) {
    throw explained(error, path);
  } finally {
    db?.close();
  }
}

/** The greatest `seq` that was ever given to an event of a history. As `readTotals`. @throws StoreError */
export function readLastSeq(path: string): number {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 1000 });
    if (db.prepare('pragma user_version').get()?.['user_version'] === 0) return 0;
    return Number(db.prepare("select seq from sqlite_sequence where name = 'events'").get()?.['seq'] ?? 0);
  } catch (error) {
    throw explained(error, path);
  } finally {
    db?.close();
  }
}

export const nothing: Totals = { events: 0, bytes: 0, from: null, to: null };

const explained = (error: unknown, path: string): StoreError =>
  typeof (error as { syscall?: unknown }).syscall === 'string'
    ? explainFile(error, path)
    : explainSqlite(error, path);
