import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { StoreError } from '../../store/index.ts';
import type { Retention } from '../types.ts';
import type { History } from './history.ts';

/** Files up to here, in bytes, are written anew; that takes some 0.2 s. */
const smallest = 64 * 1024 * 1024;
/** More than fit the three pages that SQLite balances at once: a row takes 100 bytes at least. */
const edge = 300;
/** Events that are removed in one transaction. */
const atOnce = 2000;

export interface Swept {
  readonly events: number;
  readonly bytes: number;
}

/**
 * Removes what is beyond the bounds, also from the bytes of the file and its log.
 *
 * With `secure_delete` SQLite writes zeros over a row that is removed, and over a page that becomes free. What stays are
 * copies that it left where it moved rows between pages. Small files are therefore written anew. In large ones only pages
 * beside the first row are balanced, since rows are only ever added at the end and removed at the beginning: the first
 * rows that stay are taken out, so that their pages become free, and put back, last one first, so that what is moved then
 * stays next to where it was.
 */
export function sweep(
  history: History,
  retention: Retention,
  now: string,
  largestRewritten = smallest,
): Swept {
  const first = history.firstToKeep(retention, now);
  const removed = first === undefined ? { events: 0, bytes: 0 } : removeBefore(history, first);
  if (!history.run((db) => read(db, 'select unclean from totals'))) return removed;
  const size = history.run((db) => read(db, 'pragma page_count') * read(db, 'pragma page_size'));
  if (size <= largestRewritten) history.run((db) => db.exec('vacuum'));
  else {
    history.transaction(() => history.run(moveEdge));
    history.run((db) => db.exec('pragma incremental_vacuum'));
  }
  emptyLog(history);
  history.run((db) => db.exec('update totals set unclean = 0'));
  return removed;
}

/** The log still has what was removed. Fails where somebody reads for seconds on end; the next sweep does it then. */
export function emptyLog(history: History): void {
  const done = history.run((db) => db.prepare('pragma wal_checkpoint(truncate)').get());
  if (Number(done?.['busy']) !== 0)
    throw new StoreError(
      'storage_failed',
      `${history.path} is being read for too long to empty its log; end the other reader`,
    );
}

/** In steps, because the log grows with each of them. */
function removeBefore(history: History, first: number): Swept {
  const all = { events: 0, bytes: 0 };
  for (;;) {
    const step = history.transaction(() => history.run((db) => removeStep(db, first)));
    if (step.events === 0) return all;
    all.events += step.events;
    all.bytes += step.bytes;
  }
}

function removeStep(db: DatabaseSync, first: number): Swept {
  const rows = db
    .prepare('select seq, bytes from events where seq < ? order by seq limit ?')
    .all(first, atOnce);
  const last = rows.at(-1);
  if (!last) return { events: 0, bytes: 0 };
  const removed = { events: rows.length, bytes: rows.reduce((sum, row) => sum + Number(row['bytes']), 0) };
  db.prepare('delete from events where seq <= ?').run(last['seq'] as number);
  db.prepare('update totals set events = events - ?, bytes = bytes - ?, unclean = 1').run(
    removed.events,
    removed.bytes,
  );
  return removed;
}

function moveEdge(db: DatabaseSync): void {
  const rows = db.prepare('select * from events order by seq limit ?').all(edge);
  const last = rows.at(-1);
  if (!last) return;
  db.prepare('delete from events where seq <= ?').run(last['seq'] as number);
  const columns = Object.keys(last);
  const insert = db.prepare(
    `insert into events (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
  );
  for (const row of rows.reverse()) insert.run(...columns.map((column) => row[column] as SQLInputValue));
}

const read = (db: DatabaseSync, sql: string): number => Number(Object.values(db.prepare(sql).get() ?? {})[0]);
