import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { SqliteDialect, type SqliteDatabase } from 'kysely';

/** Statements that are kept prepared. */
const mostPrepared = 500;

/**
 * Kysely's dialect over Node's own SQLite. An act is on the disk when its transaction is over (`synchronous=full`), and
 * readers of other processes are not in the way of a writer (WAL).
 */
export function sqliteDialect(path: string): SqliteDialect {
  return new SqliteDialect({ database: () => Promise.resolve(openSqlite(path)) });
}

function openSqlite(path: string): SqliteDatabase {
  const db = new DatabaseSync(path, { timeout: 5000 });
  db.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on');
  const prepared = new Map<string, StatementSync>();
  return {
    close: () => db.close(),
    prepare(sql) {
      // `begin` alone takes the lock for writing late, in the middle of a transaction, and then fails where it cannot.
      const text = sql === 'begin' ? 'begin immediate' : sql;
      const statement = prepared.get(text) ?? db.prepare(text);
      if (prepared.size >= mostPrepared) prepared.clear();
      prepared.set(text, statement);
      const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[];
      return {
        reader: statement.columns().length > 0,
        all: (parameters) => statement.all(...values(parameters)),
        run: (parameters) => statement.run(...values(parameters)),
        iterate: (parameters) => statement.iterate(...values(parameters)),
      };
    },
  };
}
