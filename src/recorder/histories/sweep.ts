import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { StoreError } from '../../store/index.ts';
import type { Retention } from '../types.ts';
import type { History } from './history.ts';

/** Files up to this size in bytes are rewritten with `vacuum`, which takes about 0.2 s. */
const maxRewriteBytes = 64 * 1024 * 1024;
/** More rows than fit on the three pages that SQLite rebalances at once. A row takes at least 100 bytes. */
const boundaryRows = 300;
/** Events deleted in one transaction. */
const deleteBatchRows = 2000;

export interface SweepResult {
  readonly events: number;
  readonly bytes: number;
}

/**
 * Deletes events beyond the retention limits, also from the bytes of the file and its WAL.
 *
 * With `secure_delete` SQLite overwrites deleted rows and freed pages with zeros. Copies remain where it moved rows
 * between pages. Small files are therefore rewritten as a whole. In large files only pages next to the first row are
 * rebalanced, because rows are only appended at the end and deleted at the beginning: the first remaining rows are
 * deleted, so that their pages become free, and inserted again in reverse order, so that rows that move stay next to
 * where they were.
 */
export function sweep(
  history: History,
  retention: Retention,
  now: string,
  maxRewrittenBytes = maxRewriteBytes,
): SweepResult {
  const firstKept = history.firstSeqToKeep(retention, now);
  const removed = firstKept === undefined ? { events: 0, bytes: 0 } : deleteBefore(history, firstKept);
  if (!history.run((db) => readNumber(db, 'select unclean from totals'))) return removed;
  const size = history.run((db) => readNumber(db, 'pragma page_count') * readNumber(db, 'pragma page_size'));
  if (size <= maxRewrittenBytes) history.run((db) => db.exec('vacuum'));
  else {
    history.transaction(() => history.run(rewriteBoundaryRows));
    history.run((db) => db.exec('pragma incremental_vacuum'));
  }
  truncateWal(history);
  history.run((db) => db.exec('update totals set unclean = 0'));
  return removed;
}

/**
 * Truncates the WAL, which still has the deleted rows. Fails while another process reads for seconds; the next sweep
 * retries.
 */
export function truncateWal(history: History): void {
  const done = history.run((db) => db.prepare('pragma wal_checkpoint(truncate)').get());
  if (Number(done?.['busy']) !== 0)
    throw new StoreError(
      'storage_failed',
      `cannot truncate the WAL of ${history.path}, because another process has been reading the file for too long; stop that reader`,
    );
}

/** Deletes in steps, because the WAL grows with the size of a transaction. */
function deleteBefore(history: History, firstKept: number): SweepResult {
  const all = { events: 0, bytes: 0 };
  for (;;) {
    const step = history.transaction(() => history.run((db) => deleteBatch(db, firstKept)));
    if (step.events === 0) return all;
    all.events += step.events;
    all.bytes += step.bytes;
  }
}

function deleteBatch(db: DatabaseSync, firstKept: number): SweepResult {
  const rows = db
    .prepare('select seq, bytes from events where seq < ? order by seq limit ?')
    .all(firstKept, deleteBatchRows);
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

function rewriteBoundaryRows(db: DatabaseSync): void {
  const rows = db.prepare('select * from events order by seq limit ?').all(boundaryRows);
  const last = rows.at(-1);
  if (!last) return;
  db.prepare('delete from events where seq <= ?').run(last['seq'] as number);
  const columns = Object.keys(last);
  const insert = db.prepare(
    `insert into events (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
  );
  for (const row of rows.reverse()) insert.run(...columns.map((column) => row[column] as SQLInputValue));
}

const readNumber = (db: DatabaseSync, sql: string): number =>
  Number(Object.values(db.prepare(sql).get() ?? {})[0]);
