import { type AddressInfo, createServer, type Socket } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { compile } from '../../src/observe/query/compile.ts';
import { PostgresReader } from '../../src/observe/readers/postgres-reader.ts';
import { ReadOnlyDatabase } from '../../src/observe/readers/read-only-database.ts';
import type { Transcripts } from '../../src/observe/types.ts';
import { freshSqlite } from '../support/databases.ts';
import { observing } from '../support/observe-host.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const step of undo.splice(0).reverse()) await step();
});

describe('a query whose rows are found in time', () => {
  const rows = 5000;
  /** At each look of a statement; the first sets the deadline. */
  function looks(late: (look: number) => boolean) {
    let look = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => (late(look++) ? Infinity : 0));
    return () => look;
  }

  it('is also ended while rows are grouped', async () => {
    const url = freshSqlite();
    await observing(url, undo);
    const path = url.replace(/^sqlite:/, '');
    const db = new DatabaseSync(path);
    db.exec(`with recursive c(i) as (select 1 union all select i + 1 from c where i < ${rows})
      insert into acts (seq, at, endpoint_id, verb, target, "by", outcome)
      select i, '2026-01-01T00:00:00.000Z', 'here', 'v' || (i % 7), 't' || i, 'operator', 'applied' from c`);
    db.close();
    const query = checkQuery({
      surface: 'acts',
      group_by: ['verb'],
      aggregate: [{ fn: 'count_distinct', column: 'target' }],
    });
    const { columns: _c, limit: _l, ...statement } = compile(query, { kind: 'sqlite', now: new Date() });
    const database = new ReadOnlyDatabase({ path, untouched: false });
    const read = () => database.read({ ...statement, racks: [], budgetMs: 1000 });

    const count = looks(() => false);
    expect(read()).toHaveLength(7);
    const whileFinding = Math.floor(rows / 1024);
    // The deadline, each thousandth row as it is found and as it comes to its group, each group.
    expect(count()).toBeGreaterThanOrEqual(1 + 2 * whileFinding + 7);

    looks((look) => look > whileFinding);
    expect(read).toThrow(expect.objectContaining({ code: 'query_over_budget' }));
  });
});

describe('a PostgreSQL that hangs', () => {
  it('accepts connections without responding: queries fail as soon as slow ones', async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    undo.push(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const reader = new PostgresReader(`postgres://lathe@127.0.0.1:${port}/x`);
    const queries = Array.from({ length: 6 }, () =>
      reader.read({ sql: 'select 1', parameters: [] }, { budgetMs: 50 }),
    );
    const results = await Promise.allSettled(queries);
    expect(results.map(({ status }) => status)).toEqual(queries.map(() => 'rejected'));
    for (const one of results)
      expect(one).toMatchObject({ reason: { name: 'ObserveError', code: 'database_unavailable' } });
  });
});

describe('a recorder that fails', () => {
  const broken = () => Promise.reject(new Error('recorder.db was removed'));
  const works: Transcripts = {
    readable: () => Promise.resolve({ racks: [], withheld: [] }),
    read: () => Promise.resolve(),
  };
  it('is reported, and is not a failure of the host', async () => {
    const { observe } = await observing(freshSqlite(), undo, {
      transcripts: { ...works, readable: broken },
    });
    await expect(observe.query({ surface: 'transcript' }, 'bearer')).rejects.toEqual(
      expect.objectContaining({
        name: 'ObserveError',
        kind: 'unavailable',
        message: 'recorder.db was removed',
      }),
    );
  });
});
