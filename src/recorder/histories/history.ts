import { statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { StoreError } from '../../store/index.ts';
import { explainFile, explainSqlite } from '../../store/sqlite-errors.ts';
import type { Retention } from '../types.ts';
import { createHistoryFile } from './history-files.ts';
import type { StoredEvent } from './stored-event.ts';

/** Totals of a history. `from` and `to`: when the host received the oldest and the newest event. */
export interface HistoryTotals {
  readonly events: number;
  /** Size of the stored texts in UTF-8. */
  readonly bytes: number;
  readonly from: string | null;
  readonly to: string | null;
}

const schemaVersion = 1;

/**
 * `seq` grows with `received_at`, so that the oldest events come first. Ids are indexed by hash: an index of the ids
 * themselves would leave copies in the file, but deleted data must be gone (src/recorder/histories/sweep.ts).
 */
const createTables = `
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
  pragma user_version = ${schemaVersion};
`;

/** Time limit for waiting for a reader of another process. */
const busyTimeoutMs = 5000;

/** A rack's events in one SQLite file. All methods are synchronous. */
export class History {
  readonly path: string;
  readonly #db: DatabaseSync;
  readonly #insert: StatementSync;
  readonly #file: number | undefined;
  /** `received_at` of the newest event. */
  #newestReceivedAt: string;

  /** Creates the file if it is absent. @throws StoreError */
  static open(path: string): History {
    let db: DatabaseSync | undefined;
    try {
      createHistoryFile(path);
      db = new DatabaseSync(path, { timeout: busyTimeoutMs });
      // Free pages are returned to the file system, deleted data is overwritten with zeros, and temporary data stays in
      // memory.
      db.exec(
        'pragma auto_vacuum = incremental; pragma journal_mode = wal; pragma synchronous = full; pragma secure_delete = on; pragma temp_store = memory',
      );
      const known = db.prepare('pragma user_version').get()?.['user_version'];
      if (Number(known) > schemaVersion)
        throw new StoreError(
          'storage_failed',
          `${path} was written by a newer version of lathe; start that version or purge the rack`,
        );
      if (known === 0) db.exec(`begin immediate; ${createTables} commit`);
      return new History(path, db);
    } catch (error) {
      db?.close();
      throw toStoreError(error, path);
    }
  }

  private constructor(path: string, db: DatabaseSync) {
    this.path = path;
    this.#file = inodeOf(path);
    this.#db = db;
    this.#insert = db.prepare(
      `insert into events (event_hash, bytes, received_at, at, source, redacted, event_id, kind, subject, role, model, attributes, content)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (event_hash) do nothing`,
    );
    this.#newestReceivedAt = this.totals().to ?? '';
  }

  /**
   * Adds events in one transaction. They are on disk when it returns. @throws StoreError
   * @param now RFC 3339 in UTC
   * @returns for each event whether it is new
   */
  add(events: readonly StoredEvent[], now: string): boolean[] {
    return this.transaction(() => {
      this.#correctClockSetBack(now);
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

  totals(): HistoryTotals {
    return this.#explainErrors(() => totalsOf(this.#db));
  }

  /** `seq` of the first event within all retention limits; undefined if all events are. */
  firstSeqToKeep({ days, bytes, events }: Retention, now: string): number | undefined {
    return this.transaction(() => {
      this.#correctClockSetBack(now);
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
    return this.#explainErrors(() => {
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

  /** Runs an operation on the file as a whole. */
  run<T>(work: (db: DatabaseSync) => T): T {
    return this.#explainErrors(() => work(this.#db));
  }

  /** Whether the path still names the open file. If the file was deleted, events added to it would be lost. */
  get isCurrentFile(): boolean {
    return inodeOf(this.path) === this.#file;
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }

  /**
   * After the clock was set back, changes later times to `now`. Otherwise events would be kept for too long, and times
   * would not grow with `seq`.
   */
  #correctClockSetBack(now: string): void {
    if (this.#newestReceivedAt > now) {
      const before = this.#db
        .prepare('select seq from events where received_at <= ? order by seq desc limit 1')
        .get(now);
      this.#db
        .prepare('update events set received_at = ? where seq > ?')
        .run(now, Number(before?.['seq'] ?? 0));
    }
    this.#newestReceivedAt = now;
  }

  #explainErrors<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toStoreError(error, this.path);
    }
  }
}

const inodeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;

function totalsOf(db: DatabaseSync): HistoryTotals {
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

/** Reads totals without keeping the file open, also while a host uses it. @throws StoreError */
export function readTotals(path: string): HistoryTotals {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 1000 });
    // The file was created but has no tables yet.
    if (db.prepare('pragma user_version').get()?.['user_version'] === 0) return emptyTotals;
    return totalsOf(db);
  } catch (error) {
    throw toStoreError(error, path);
  } finally {
    db?.close();
  }
}

/** Reads the greatest `seq` ever assigned in a history; opens the file as `readTotals` does. @throws StoreError */
export function readLastSeq(path: string): number {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 1000 });
    if (db.prepare('pragma user_version').get()?.['user_version'] === 0) return 0;
    return Number(db.prepare("select seq from sqlite_sequence where name = 'events'").get()?.['seq'] ?? 0);
  } catch (error) {
    throw toStoreError(error, path);
  } finally {
    db?.close();
  }
}

export const emptyTotals: HistoryTotals = { events: 0, bytes: 0, from: null, to: null };

const toStoreError = (error: unknown, path: string): StoreError =>
  typeof (error as { syscall?: unknown }).syscall === 'string'
    ? explainFile(error, path)
    : explainSqlite(error, path);
