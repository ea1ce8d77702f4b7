import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { compile } from '../../src/observe/query/compile.ts';
import { compileCoverage, type Coverage } from '../../src/observe/query/coverage.ts';
import { nextCursor } from '../../src/observe/query/cursor.ts';
import { timeCheckFunction } from '../../src/observe/readers/time-check.ts';
import { toRow } from '../../src/observe/query/rows.ts';
import { Store } from '../../src/store/index.ts';
import { racks, type RackId } from '../../src/tracing/index.ts';
import { administer, serverFolder } from './databases.ts';
import { freshDataDir } from './host.ts';
import { postgresPrograms } from './postgres-server.ts';

export type Cell = string | number | bigint | null;
export type TestRow = Readonly<Record<string, Cell>>;

export interface Page {
  readonly rows: unknown[][];
  readonly next?: string | undefined;
}

/** A database with all tables that surfaces are of. */
export interface ObservedDatabase {
  readonly kind: 'sqlite' | 'postgres';
  insert(table: string, rows: readonly TestRow[]): Promise<void>;
  empty(table: string): Promise<void>;
  read(sql: string, parameters?: readonly unknown[]): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

export const now = new Date('2026-06-15T12:00:00.000Z');

/** What is written for a statement that fails shows which one it was. */
async function run(
  database: ObservedDatabase,
  statement: { sql: string; parameters: readonly unknown[] },
): Promise<Record<string, unknown>[]> {
  try {
    return await database.read(statement.sql, statement.parameters);
  } catch (cause) {
    const { message } = cause as Error;
    throw new Error(
      `${database.kind}: ${message}\n${statement.sql}\n${JSON.stringify(statement.parameters)}`,
      {
        cause,
      },
    );
  }
}

/** One page of a query's answer. */
export async function ask(
  database: ObservedDatabase,
  body: unknown,
  { attached = racks, at = now }: { readonly attached?: readonly RackId[]; readonly at?: Date } = {},
): Promise<Page> {
  const query = checkQuery(body);
  const { limit, columns, ...statement } = compile(query, {
    kind: database.kind,
    now: at,
    racks: attached.map((rack) => ({ rack })),
  });
  const rows = await run(database, statement);
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const next = rows.length > limit && last ? nextCursor(query, last, at) : undefined;
  return { rows: shown.map((row) => toRow(columns, row)), next };
}

/** All pages of a query, in order. */
export async function askAll(database: ObservedDatabase, body: object, limit: number): Promise<unknown[][]> {
  const all: unknown[][] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 500; page++) {
    const { rows, next } = await ask(database, { ...body, limit, ...(cursor ? { cursor } : {}) });
    all.push(...rows);
    if (next === undefined) return all;
    cursor = next;
  }
  throw new Error('the pages have no end');
}

export async function coverageOf(database: ObservedDatabase, body: unknown): Promise<Coverage> {
  const statement = compileCoverage(checkQuery(body), {
    kind: database.kind,
    now,
    racks: racks.map((rack) => ({ rack })),
  });
  const [row = {}] = await run(database, statement);
  return statement.read(row);
}

/** As the recorder has them. */
const events =
  'create table %.events (seq integer primary key, event_id text not null unique, at text not null, received_at text not null, source text not null, kind text not null, subject text, role text, model text, content text, attributes text, bytes integer not null, redacted integer not null)';

/** With the histories of all racks attached. */
export async function sqliteDatabase(): Promise<ObservedDatabase> {
  const folder = freshDataDir();
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'lathe.db');
  await made(`sqlite:${path}`);
  const db = new DatabaseSync(path);
  db.function(timeCheckFunction, () => 1);
  for (const rack of racks) {
    db.prepare(`attach ? as "${rack}"`).run(join(folder, `${rack}.db`));
    db.exec(events.replace('%', `"${rack}"`));
  }
  return {
    kind: 'sqlite',
    insert(table, rows) {
      db.exec('begin');
      for (const row of rows) {
        const names = Object.keys(row);
        db.prepare(
          `insert into ${table} (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
        ).run(...names.map((name) => row[name] ?? null));
      }
      db.exec('commit');
      return Promise.resolve();
    },
    empty: (table) => Promise.resolve(db.exec(`delete from ${table}`)),
    read(sql, parameters = []) {
      const statement = db.prepare(sql);
      statement.setReadBigInts(true);
      return Promise.resolve(statement.all(...(parameters as Cell[])).map((row) => ({ ...row })));
    },
    close: () => Promise.resolve(db.close()),
  };
}

async function made(url: string): Promise<void> {
  await (await Store.open({ url, endpointId: 'here' })).close();
  await (await GatewayStore.open({ url, replicaId: 'one' })).close();
}

/** Undefined where PostgreSQL is not installed. Its own order of texts is not that of code points. */
export async function postgresDatabase(): Promise<ObservedDatabase | undefined> {
  if (postgresPrograms() === undefined) return undefined;
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  await administer(
    `create database ${name} template template0 strategy file_copy locale_provider icu icu_locale 'en-US'`,
  );
  const url = `postgres:///${name}?host=${await serverFolder()}&user=lathe`;
  await made(url);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    kind: 'postgres',
    async insert(table, rows) {
      await client.query('begin');
      for (const row of rows) {
        const names = Object.keys(row);
        await client.query(
          `insert into ${table} (${names.map((one) => `"${one}"`).join(', ')}) values (${names.map((_, n) => `$${n + 1}`).join(', ')})`,
          names.map((one) => row[one]),
        );
      }
      await client.query('commit');
    },
    empty: async (table) => void (await client.query(`delete from ${table}`)),
    read: async (sql, parameters = []) => (await client.query(sql, [...parameters])).rows,
    async close() {
      await client.end();
      await administer(`drop database ${name} with (force)`);
    },
  };
}
