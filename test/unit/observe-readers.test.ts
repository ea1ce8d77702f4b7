import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it } from 'vitest';
import { PostgresReader } from '../../src/observe/readers/postgres-reader.ts';
import { SqliteReader } from '../../src/observe/readers/sqlite-reader.ts';
import { administer, describeDatabases, describePostgres, freshSqlite } from '../support/databases.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';
import type { Reader } from '../../src/observe/types.ts';
import { entryPath } from '../support/host.ts';

const entry = entryPath('observe-worker');
const reason = noDisks();
const describeDisks = reason === undefined ? describe : describe.skip;
const title = (name: string) => (reason === undefined ? name : `${name}: skipped, ${reason}`);

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

const pathOf = (url: string) => url.replace(/^sqlite:/, '');
const databaseOf = (url: string) => /^postgres:\/\/\/([^?]+)/.exec(url)?.[1] ?? '';

function readerOf(url: string): Reader {
  const reader = url.startsWith('sqlite:')
    ? new SqliteReader({ path: pathOf(url), entry })
    : new PostgresReader(url);
  undo.push(() => reader.close());
  return reader;
}

/** Writes as the owner of the database. */
async function write(url: string, sql: string): Promise<void> {
  if (!url.startsWith('sqlite:')) return void (await administer(sql, databaseOf(url)));
  const db = new DatabaseSync(pathOf(url));
  db.exec(`pragma journal_mode = wal; ${sql}`);
  db.close();
}

const ask = (reader: Reader, sql: string, parameters: (string | number | null)[] = [], budgetMs = 60_000) =>
  reader.read({ sql, parameters }, { budgetMs });

describeDatabases('a reader', (freshUrl, kind) => {
  const placed = (position: number) => (kind === 'sqlite' ? '?' : `$${position}`);

  it('gives rows, with whole numbers as numbers as far as those are exact', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (a bigint, b text, c double precision)');
    await write(url, "insert into t values (9007199254740991, 'x', 0.5), (9007199254740993, null, null)");
    const reader = readerOf(url);
    expect(
      await ask(reader, `select a, b, c from t where a > ${placed(1)} order by a limit ${placed(2)}`, [5, 9]),
    ).toEqual([
      { a: 9007199254740991, b: 'x', c: 0.5 },
      { a: '9007199254740993', b: null, c: null },
    ]);
    expect(await ask(reader, 'select count(*) as n, sum(a) as total, avg(c) as middle from t')).toEqual([
      { n: 2, total: '18014398509481984', middle: 0.5 },
    ]);
  });

  it('sees what was written since', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (a bigint)');
    const reader = readerOf(url);
    expect(await ask(reader, 'select count(*) as n from t')).toEqual([{ n: 0 }]);
    await write(url, 'insert into t values (1)');
    expect(await ask(reader, 'select count(*) as n from t')).toEqual([{ n: 1 }]);
  });

  it('says which tables are there, also those that come later', async () => {
    const url = await freshUrl();
    await write(url, 'create table first (a bigint)');
    const reader = readerOf(url);
    expect(await reader.has(['first'])).toBe(true);
    expect(await reader.has(['first', 'second'])).toBe(false);
    await write(url, 'create table second (a bigint)');
    expect(await reader.has(['first', 'second'])).toBe(true);
    expect(await reader.has(["x'; drop table first"])).toBe(false);
  });

  it('refuses an answer that is too large', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (b text)');
    const long = kind === 'sqlite' ? 'hex(zeroblob(500000))' : "repeat('x', 1000000)";
    await write(url, `insert into t values ${Array.from({ length: 12 }, () => `(${long})`).join(', ')}`);
    const reader = readerOf(url);
    await expect(ask(reader, 'select b from t')).rejects.toMatchObject({
      kind: 'over_budget',
      code: 'answer_too_large',
      message: expect.stringContaining('select fewer columns') as string,
    });
    expect(await ask(reader, 'select b from t limit 3')).toHaveLength(3);
    const rows = kind === 'sqlite' ? `json_each('${manyOf(2000)}')` : 'generate_series(1, 2000)';
    await expect(ask(reader, `select null as a from ${rows} x, ${rows} y`)).rejects.toMatchObject({
      code: 'answer_too_large',
    });
  });

  it('answers waiting callers one after the other, and refuses when too many wait', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (a bigint)');
    const reader = readerOf(url);
    const answers = await Promise.allSettled(
      Array.from({ length: 60 }, (_, n) => ask(reader, `select ${n} as n`)),
    );
    const given = answers.filter(({ status }) => status === 'fulfilled');
    expect(given.length).toBeGreaterThanOrEqual(33);
    expect(given.length).toBeLessThan(60);
    answers.forEach((answer, n) => {
      if (answer.status === 'fulfilled') expect(answer.value).toEqual([{ n }]);
      else expect(answer.reason).toMatchObject({ kind: 'unavailable', code: 'observe_busy' });
    });
    expect(await ask(reader, 'select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('refuses when it is closed', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (a bigint)');
    const reader = readerOf(url);
    await ask(reader, 'select 1 as n');
    await reader.close();
    await expect(ask(reader, 'select 1 as n')).rejects.toMatchObject({ kind: 'unavailable' });
  });
});

/** Statements that an attacker might inject. */
const harmful = {
  sqlite: [
    'insert into t values (2)',
    'update t set a = 2',
    'delete from t',
    'drop table t',
    'create table u (a)',
    'create temp table u (a)',
    'create index j on t (a)',
    'create virtual table v using fts5(a)',
    'alter table t rename to u',
    'reindex',
    'analyze',
    'vacuum',
    "vacuum into 'FOLDER/copy.db'",
    "attach 'FOLDER/other.db' as other",
    'detach main',
    'begin immediate',
    'savepoint s',
    'pragma user_version = 7',
    'pragma query_only = off',
    'pragma journal_mode = delete',
    'pragma wal_checkpoint(truncate)',
    'pragma writable_schema = on',
    'select * from pragma_wal_checkpoint',
    "select load_extension('x')",
    "select fts3_tokenizer('x')",
    "select writefile('FOLDER/written', 'x')",
    "select readfile('/etc/passwd')",
    'with recursive n(i) as (values(1) union all select i + 1 from n) select max(i) from n',
    "insert into sqlite_schema values ('table', 'u', 'u', 0, 'create table u (a)')",
    'select 1; insert into t values (2)',
    'with x as (select 2) insert into t select * from x returning a',
  ],
  postgres: [
    'insert into t values (2)',
    'insert into t values (2) returning a',
    'with x as (insert into t values (2) returning a) select a from x',
    'update t set a = 2',
    'delete from t',
    'drop table t',
    'create table u (a bigint)',
    'create temp table u (a bigint)',
    'alter table t rename to u',
    'truncate t',
    'vacuum t',
    'set transaction read write',
    'set session characteristics as transaction read write',
    "select set_config('transaction_read_only', 'off', false)",
    'commit',
    'select 1; insert into t values (2)',
    'select 1; commit; insert into t values (2)',
    "copy t to '/tmp/lathe-copied'",
    "copy (select 1) to program 'touch /tmp/lathe-copied'",
    "do 'begin delete from t; end'",
    'listen x',
    "select nextval('s')",
    'select * into u from t',
    'select * from t for update',
    'call p()',
    'explain analyze insert into t values (2)',
  ],
};

describe('a reader of SQLite', () => {
  it.each(harmful.sqlite)('lets through nothing but reading: %s', async (template) => {
    const url = freshSqlite();
    const folder = dirname(pathOf(url));
    await write(url, 'create table t (a); create index i on t (a); insert into t values (1)');
    const before = contents(folder);
    const reader = readerOf(url);
    const sql = template.replaceAll('FOLDER', folder);
    // Behind a semicolon nothing is read at all.
    if (sql.startsWith('select 1;')) expect(await ask(reader, sql)).toEqual([{ 1: 1 }]);
    else await expect(ask(reader, sql)).rejects.toMatchObject({ kind: 'unavailable' });
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
    await reader.close();
    const { 'lathe.db-wal': log, 'lathe.db-shm': _index, ...after } = contents(folder);
    expect(after).toEqual(before);
    expect(log ?? '').toBe('');
  });

  it('does not change a byte of a database that a crash left', async () => {
    const url = freshSqlite();
    const path = pathOf(url);
    await write(url, 'create table t (a); insert into t values (1)');
    // Open until the end: the latest is in the log.
    const writer = new DatabaseSync(path);
    undo.push(() => writer.close());
    writer.exec('pragma wal_autocheckpoint = 0; insert into t values (2)');
    const before = [readFileSync(path), readFileSync(`${path}-wal`)];
    const reader = readerOf(url);
    expect(await ask(reader, 'select sum(a) as n from t')).toEqual([{ n: 3 }]);
    await reader.close();
    expect([readFileSync(path), readFileSync(`${path}-wal`)]).toEqual(before);
  });

  it('reads the new file after the open one was replaced', async () => {
    const url = freshSqlite();
    await write(url, 'create table t (a); insert into t values (1)');
    const reader = readerOf(url);
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
    const other = freshSqlite();
    await write(other, 'create table t (a); insert into t values (2)');
    replace(pathOf(url), pathOf(other));
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 2 }]);
  });

  it.each([
    ['there is none', undefined, 'there is no database at'],
    [
      'it is none',
      'not a database at all, but a text that is long enough to be looked at',
      'is not an SQLite database',
    ],
  ])('says what is wrong with a file: %s', async (_, text, message) => {
    const url = freshSqlite();
    if (text !== undefined) writeFileSync(pathOf(url), text.repeat(40));
    const reader = readerOf(url);
    await expect(ask(reader, 'select 1')).rejects.toMatchObject({
      kind: 'unavailable',
      code: 'database_unavailable',
      message: expect.stringContaining(message) as string,
    });
    expect(existsSync(pathOf(url))).toBe(text !== undefined);
  });

  it('continues after a thread failed', async () => {
    const breaking = join(dirname(pathOf(freshSqlite())), 'breaking.mjs');
    writeFileSync(
      breaking,
      `import { parentPort } from 'node:worker_threads';
      parentPort.on('message', ({ sql }) => {
        if (sql === 'break') throw new Error('out of order');
        if (sql === 'end') process.exit(3);
        parentPort.postMessage({ rows: [{ a: 1 }] });
      });
      parentPort.postMessage({ ready: true });`,
    );
    const reader = new SqliteReader({ path: null, entry: breaking });
    undo.push(() => reader.close());
    for (const sql of ['break', 'end']) {
      await expect(ask(reader, sql)).rejects.toMatchObject({
        kind: 'unavailable',
        message: expect.stringContaining('the thread that reads the database failed') as string,
      });
      expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
    }
  });

  it('abandons up to two statements that it cannot end, then refuses', async () => {
    const url = freshSqlite();
    await write(url, 'create table t (a); insert into t values (1)');
    const reader = readerOf(url);
    const endless = 'select count(*) as n from json_each(?) x, json_each(?) y, json_each(?) z';
    const long = manyOf(300);
    for (const _ of [1, 2])
      await expect(ask(reader, endless, [long, long, long], 20)).rejects.toMatchObject({
        kind: 'over_budget',
      });
    // Two are on their way to their end, unless they came to it meanwhile.
    const third = await ask(reader, 'select a from t').catch((error: unknown) => error);
    if (!Array.isArray(third)) expect(third).toMatchObject({ kind: 'unavailable', code: 'observe_busy' });
    await expect.poll(() => ask(reader, 'select a from t').catch(() => 'busy')).toEqual([{ a: 1 }]);
  });

  it('ends a statement with time checks in time, and keeps the thread', async () => {
    const url = freshSqlite();
    await write(url, 'create table t (a); insert into t values (1)');
    const reader = readerOf(url);
    const long = manyOf(5000);
    const sql =
      'select count(*) as n from json_each(?) x, json_each(?) y, json_each(?) z where in_time() and x.value > y.value';
    for (const _ of [1, 2, 3, 4])
      await expect(ask(reader, sql, [long, long, long], 20)).rejects.toMatchObject({ kind: 'over_budget' });
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
  });
});

describe('racks', () => {
  const rackAt = (folder: string, texts: readonly string[]) => {
    const path = join(folder, "it's a rack #1?.db");
    const db = new DatabaseSync(path);
    db.exec('pragma journal_mode = wal; create table events (content text)');
    for (const text of texts) db.prepare('insert into events values (?)').run(text);
    db.close();
    return { rack: 'agent', path } as const;
  };
  const events = { sql: 'select content from agent.events', parameters: [] };

  it.each([null, 'a main database'])('are attached for one statement only (%s)', async (main) => {
    const url = freshSqlite();
    await write(url, 'create table t (a)');
    const rack = rackAt(dirname(pathOf(url)), ['first']);
    const reader = new SqliteReader({ path: main === null ? null : pathOf(url), entry });
    undo.push(() => reader.close());
    const options = { budgetMs: 60_000, racks: [rack] };
    expect(await reader.read(events, options)).toEqual([{ content: 'first' }]);
    await expect(reader.read(events, { budgetMs: 60_000 })).rejects.toMatchObject({ kind: 'unavailable' });
    await expect(
      reader.read({ sql: "insert into agent.events values ('planted')", parameters: [] }, options),
    ).rejects.toMatchObject({ kind: 'unavailable' });
    expect(await reader.read(events, options)).toEqual([{ content: 'first' }]);
  });

  it.each([null, 'a main database'])(
    'have no events while their file is being created (%s)',
    async (main) => {
      const url = freshSqlite();
      await write(url, 'create table t (a)');
      const path = join(dirname(pathOf(url)), 'new.db');
      const reader = new SqliteReader({ path: main === null ? null : pathOf(url), entry });
      undo.push(() => reader.close());
      const options = { budgetMs: 60_000, racks: [{ rack: 'agent', path } as const] };
      writeFileSync(path, '');
      expect(await reader.read(events, options)).toEqual([]);
      const db = new DatabaseSync(path);
      undo.push(() => db.close());
      db.exec('pragma journal_mode = wal');
      expect(await reader.read(events, options)).toEqual([]);
      await expect(
        reader.read(
          { sql: "insert into agent.events (content) values ('planted')", parameters: [] },
          options,
        ),
      ).rejects.toMatchObject({ kind: 'unavailable' });
      db.exec("create table events (content text); insert into events values ('first')");
      expect(await reader.read(events, options)).toEqual([{ content: 'first' }]);
    },
  );

  it('are read from the new file after a purge', async () => {
    const url = freshSqlite();
    await write(url, 'create table t (a)');
    const folder = dirname(pathOf(url));
    const rack = rackAt(folder, ['purged']);
    const reader = readerOf(url);
    const options = { budgetMs: 60_000, racks: [rack] };
    expect(await reader.read(events, options)).toEqual([{ content: 'purged' }]);
    for (const ending of ['', '-wal', '-shm']) rmSync(rack.path + ending, { force: true });
    // No process holds the removed file open, which would keep its content on the disk.
    if (process.platform === 'linux')
      expect(
        readdirSync('/proc/self/fd')
          .map((fd) => targetOf(fd))
          .filter((file) => file.includes('deleted')),
      ).toEqual([]);
    await expect(reader.read(events, options)).rejects.toMatchObject({ kind: 'unavailable' });
    rackAt(folder, ['later']);
    expect(await reader.read(events, options)).toEqual([{ content: 'later' }]);
  });
});

describeDisks(title('a database on a read-only disk'), () => {
  const diskWith = async (prepare: (path: string) => void | Promise<void>) => {
    const disk = smallDisk('4m');
    undo.push(disk.remove);
    const path = join(disk.folder, 'lathe.db');
    await prepare(path);
    disk.makeReadOnly();
    return readerOf(`sqlite:${path}`);
  };

  it('is read as it is', async () => {
    const reader = await diskWith((path) =>
      write(`sqlite:${path}`, 'create table t (a); insert into t values (1)'),
    );
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
  });

  it('is read with what is in its log only, or not at all', async () => {
    const reader = await diskWith(async (path) => {
      const other = freshSqlite();
      const writer = new DatabaseSync(pathOf(other));
      writer.exec('pragma journal_mode = wal; create table t (a); insert into t values (1)');
      for (const ending of ['', '-wal']) writeFileSync(path + ending, readFileSync(pathOf(other) + ending));
      writer.close();
    });
    await expect(ask(reader, 'select a from t')).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('-wal') as string,
    });
  });
});

describeDatabases('a table of a million rows', (freshUrl, kind) => {
  it('is read by its index, and the caller is not held by what takes long', async () => {
    const url = await freshUrl();
    await write(url, 'create table t (id bigint primary key, at text, who text, ms double precision)');
    const [series, n] = [
      'with recursive n(i) as (values (1) union all select i + 1 from n where i < 1000000)',
      'n',
    ];
    await write(
      url,
      kind === 'sqlite'
        ? `${series} insert into t select i, '2026-01-01T' || i, 'agent ' || (i % 7), i % 1000 from ${n}`
        : "insert into t select i, '2026-01-01T' || i, 'agent ' || (i % 7), i % 1000 from generate_series(1, 1000000) i",
    );
    await write(url, 'create index newest on t (at, id)');
    const reader = readerOf(url);
    const timed = async (sql: string) => {
      const begun = performance.now();
      const rows = await ask(reader, sql);
      return { rows, ms: performance.now() - begun };
    };
    const newest = [];
    for (let time = 0; time < 5; time++)
      newest.push(await timed('select id from t order by at desc, id desc limit 2'));
    for (const { rows } of newest) expect(rows).toEqual([{ id: 999999 }, { id: 999998 }]);
    const all = await timed("select count(*) as n from t where who = 'agent 3'");
    expect(all.rows).toEqual([{ n: 142857 }]);
    expect(Math.min(...newest.map(({ ms }) => ms))).toBeLessThan(all.ms);
    const heavy =
      kind === 'sqlite'
        ? 'select id, percentile(ms, 95) as p from t group by id order by 2 desc limit 3'
        : 'select id, percentile_cont(0.95) within group (order by ms) as p from t group by id order by 2 desc limit 3';
    let beats = 0;
    const beat = setInterval(() => (beats += 1), 5);
    undo.push(() => clearInterval(beat));
    await expect(ask(reader, heavy, [], 100)).rejects.toMatchObject({
      kind: 'over_budget',
      code: 'query_over_budget',
    });
    expect(beats).toBeGreaterThan(0);
    expect(await ask(reader, 'select id from t order by at desc, id desc limit 1')).toEqual([{ id: 999999 }]);
  });
});

describePostgres('a reader of PostgreSQL', (freshUrl) => {
  it.each(harmful.postgres)('lets through nothing but reading: %s', async (sql) => {
    const url = await freshUrl();
    await write(url, 'create table t (a bigint); insert into t values (1); create sequence s');
    await write(url, "create procedure p() language sql as 'delete from t'");
    const reader = readerOf(url);
    await expect(ask(reader, sql)).rejects.toMatchObject({ kind: 'unavailable' });
    expect(await ask(reader, 'select a from t')).toEqual([{ a: 1 }]);
    const { rows } = await administer(
      "select (select count(*) from pg_class where relname in ('u', 'v')) + (select last_value from s) as n",
      databaseOf(url),
    );
    expect(rows).toEqual([{ n: '1' }]);
    expect(existsSync('/tmp/lathe-copied')).toBe(false);
  });

  it('ends a statement whose time is over, and reuses the connection', async () => {
    const reader = readerOf(await freshUrl());
    await expect(ask(reader, 'select pg_sleep(60)', [], 50)).rejects.toMatchObject({
      kind: 'over_budget',
      code: 'query_over_budget',
    });
    expect(await ask(reader, 'select 1 as n')).toEqual([{ n: 1 }]);
  });

  it('says what to do if the server is not reachable', async () => {
    const reader = readerOf('postgres:///lathe?host=/nowhere&user=lathe&password=hidden');
    await expect(ask(reader, 'select 1')).rejects.toMatchObject({
      kind: 'unavailable',
      code: 'database_unavailable',
      message: expect.stringMatching(/^(?!.*hidden).*cannot be reached.*check that it runs/) as string,
    });
  });
});

const replace = (path: string, by: string) => {
  for (const ending of ['-wal', '-shm']) rmSync(path + ending, { force: true });
  renameSync(by, path);
};

const contents = (folder: string) =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'latin1')]));

const targetOf = (fd: string) => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
};

const manyOf = (count: number) => JSON.stringify(Array.from({ length: count }, () => 0));
