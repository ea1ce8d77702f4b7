import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import pg from 'pg';
import { afterAll, describe, inject, it } from 'vitest';
import { freshDataDir } from './host.ts';
import { postgresPrograms } from './postgres-server.ts';
import { runsRest, tier } from './tier.ts';

type Urls = () => Promise<string>;
type Kind = 'sqlite' | 'postgres';

type Suite = (url: Urls, kind: Kind) => void;

/**
 * Runs a suite on every database that the product knows; `url` gives an empty one each time. Only `npm run test:all`
 * runs it on PostgreSQL.
 */
export function describeDatabases(name: string, suite: Suite): void {
  if (tier !== 'rest') describeSqlite(name, suite);
  if (runsRest) describePostgres(`${name} (PostgreSQL)`, suite);
}

/** The same for the store and the ledger, which `npm test` runs on PostgreSQL, too. */
export function describeStores(name: string, suite: Suite): void {
  describeSqlite(name, suite);
  if (tier !== 'fast') describePostgres(`${name} (PostgreSQL)`, suite);
}

const describeSqlite = (name: string, suite: Suite): void => {
  describe(`${name} (SQLite)`, () => suite(() => Promise.resolve(freshSqlite()), 'sqlite'));
};

export const freshSqlite = (): string => `sqlite:${join(freshDataDir(), 'lathe.db')}`;

/** Runs a suite on PostgreSQL alone; skipped, with a reason, where that is not installed. */
export function describePostgres(name: string, suite: Suite): void {
  if (postgresPrograms() === undefined) {
    describe.skip(name, () => it('skipped: PostgreSQL is not installed (npm run setup:services)', () => {}));
    return;
  }
  describe(name, () => {
    const made: string[] = [];
    // Before the suite's own hooks: the last that is registered runs first, and closes what uses the databases.
    afterAll(async () => {
      for (const database of made.splice(0)) await administer(`drop database ${database} with (force)`);
    });
    suite(async () => {
      const database = `test_${crypto.randomUUID().replaceAll('-', '')}`;
      await administer(`create database ${database} template template0 strategy file_copy`);
      made.push(database);
      return await urlOf(database);
    }, 'postgres');
  });
}

/** As the owner of the server. */
export async function administer(sql: string, database = 'postgres'): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: await urlOf(database) });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}

const urlOf = async (database: string) => `postgres:///${database}?host=${await serverFolder()}&user=lathe`;

let folderRequest: Promise<string> | undefined;
/** Where the socket of the run's server is. */
export function serverFolder(): Promise<string> {
  folderRequest ??= text(connect(inject('postgresDoor'))).then((answer) => {
    const { folder, failure } = JSON.parse(answer) as { folder?: string; failure?: string };
    if (folder === undefined) throw new Error(failure);
    return folder;
  });
  return folderRequest;
}
