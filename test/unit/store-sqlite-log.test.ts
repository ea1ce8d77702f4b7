import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { CompiledQuery } from 'kysely';
import { afterEach, describe, expect, it } from 'vitest';
import { openSqlite } from '../../src/store/sqlite.ts';
import type { CommitSync } from '../../src/store/index.ts';
import { SqliteLog } from '../../src/store/sqlite-log.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function opened() {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-sqlite-log-'));
  undo.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'a.db');
  const database = await openSqlite(path, { syncInBackground: true, cacheStatements: true });
  undo.push(async () => {
    await database.readPool.close();
    await database.writePool.close();
  });
  const writer = await database.writePool.acquire();
  const reader = await database.readPool.acquire();
  const run = (sql: string) => writer.executeQuery(CompiledQuery.raw(sql));
  await run('create table t (n integer)');
  const begin = async (n: number) => {
    await writer.begin();
    await run(`insert into t values (${n})`);
  };
  const finish = (sync?: CommitSync) => writer.commit(sync);
  const insert = async (n: number, sync?: CommitSync) => {
    await begin(n);
    await finish(sync);
  };
  const { log } = writer as unknown as { log: SqliteLog };
  const read = async () =>
    (await reader.executeQuery<{ n: number }>(CompiledQuery.raw('select n from t'))).rows.map(({ n }) => n);
  return { path, log, insert, begin, finish, read, sync: () => database.sync() };
}

/** Delays syncs until `go`, and counts the requested ones. */
function slowed(log: SqliteLog) {
  const state = { requestedSyncs: 0, go: () => undefined as unknown };
  let syncing: Promise<void> | undefined;
  Object.defineProperty(log, 'runningSync', { get: () => syncing });
  log.sync = () => {
    state.requestedSyncs++;
    syncing = new Promise((resolve) => {
      state.go = () => {
        syncing = undefined;
        resolve();
      };
    });
    return syncing;
  };
  return state;
}

const later = () => new Promise((resolve) => setImmediate(resolve));

describe("SQLite's commits, synced from another thread", () => {
  it('resolve when the log is on the disk, and not before', async () => {
    const { log, insert } = await opened();
    const slow = slowed(log);
    let done = false;
    const inserting = insert(1).then(() => {
      done = true;
    });
    await later();
    expect({ done, requestedSyncs: slow.requestedSyncs }).toEqual({ done: false, requestedSyncs: 1 });
    slow.go();
    await inserting;
  });

  it('are not readable before they are on the disk', async () => {
    const { log, insert, read } = await opened();
    const slow = slowed(log);
    const inserting = insert(1);
    await later();
    let found: number[] | undefined;
    const reading = read().then((rows) => {
      found = rows;
    });
    await later();
    expect(found).toBeUndefined();
    slow.go();
    await Promise.all([inserting, reading]);
    expect(found).toEqual([1]);
  });

  it('are synced one after the other: those of one sync together, and none before its own', async () => {
    const { log, insert, sync } = await opened();
    const slow = slowed(log);
    const done: number[] = [];
    const note = (n: number) => () => done.push(n);
    await insert(1, 'later');
    const first = sync().then(note(1));
    await later();
    await insert(2, 'later');
    const second = sync().then(note(2));
    const third = insert(3).then(note(3));
    await later();
    expect({ done, requestedSyncs: slow.requestedSyncs }).toEqual({ done: [], requestedSyncs: 1 });
    slow.go();
    await first;
    await later();
    expect({ done, requestedSyncs: slow.requestedSyncs }).toEqual({ done: [1], requestedSyncs: 2 });
    slow.go();
    await Promise.all([second, third]);
    expect(new Set(done)).toEqual(new Set([1, 2, 3]));
    expect(slow.requestedSyncs).toBe(2);
  });

  it('are checkpointed into the database when the log cannot be synced', async () => {
    const { path, log, insert, read } = await opened();
    log.sync = () => Promise.reject(new Error('the disk is ill'));
    await insert(1);
    await insert(2);
    expect(statSync(`${path}-wal`).size).toBe(0);
    expect(await read()).toEqual([1, 2]);
  });

  it('fail with storage_unsure when neither works, until it does', async () => {
    const { path, log, insert, read } = await opened();
    await insert(1);
    // An open read transaction prevents the checkpoint.
    const other = new DatabaseSync(path);
    undo.push(() => other.isOpen && other.close());
    other.exec('begin; select * from t');
    const real = log.sync.bind(log);
    log.sync = () => Promise.reject(new Error('the disk is ill'));
    await expect(insert(2)).rejects.toMatchObject({ code: 'storage_unsure' });
    log.sync = real;
    // Also when the disk works again: it is unknown which part of the log is on it.
    await expect(insert(3)).rejects.toMatchObject({ code: 'storage_unsure' });
    other.close();
    await insert(4);
    expect(await read()).toEqual([1, 2, 4]);
  });

  it('are really synced', async () => {
    const { path } = await opened();
    await new SqliteLog(path).sync();
  });
});

describe("SQLite's commits that are synced later", () => {
  it('resolve before they are on the disk, and are synced together soon after', async () => {
    const { log, insert } = await opened();
    const slow = slowed(log);
    await insert(1, 'later');
    await insert(2, 'later');
    expect(slow.requestedSyncs).toBe(0);
    await expect.poll(() => slow.requestedSyncs).toBe(1);
    slow.go();
  });

  it('are synced by the next commit that is', async () => {
    const { log, insert, sync } = await opened();
    const slow = slowed(log);
    await insert(1, 'later');
    const inserting = insert(2);
    await later();
    slow.go();
    await inserting;
    await sync();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(slow.requestedSyncs).toBe(1);
  });

  it.each(['sync', 'read'] as const)('are on the disk after a %s', async (name) => {
    const { log, insert, ...database } = await opened();
    const slow = slowed(log);
    await insert(1, 'later');
    let isDone = false;
    const doing = database[name]().then(() => {
      isDone = true;
    });
    await later();
    expect({ isDone, requestedSyncs: slow.requestedSyncs }).toEqual({ isDone: false, requestedSyncs: 1 });
    slow.go();
    await doing;
  });

  it('are reported as unsure by every sync and commit until the log can be checkpointed', async () => {
    const { path, log, insert, read, sync } = await opened();
    await insert(1);
    // An open read transaction prevents the checkpoint.
    const other = new DatabaseSync(path);
    undo.push(() => other.isOpen && other.close());
    other.exec('begin; select * from t');
    let failures = 0;
    log.sync = () => {
      failures += 1;
      return Promise.reject(new Error('the disk is ill'));
    };
    await insert(2, 'later');
    await expect.poll(() => failures).toBe(1);
    await expect(sync()).rejects.toMatchObject({ code: 'storage_unsure' });
    await expect(insert(3, 'later')).rejects.toMatchObject({ code: 'storage_unsure' });
    other.close();
    await sync();
    expect(await read()).toEqual([1, 2]);
  });

  it.each(['before', 'after'] as const)(
    'that fail to be synced while another transaction is open are not covered by its sync, if they fail %s its commit',
    async (when) => {
      const { path, log, insert, begin, finish } = await opened();
      await insert(1);
      // An open read transaction prevents the checkpoint.
      const other = new DatabaseSync(path);
      undo.push(() => other.isOpen && other.close());
      other.exec('begin; select * from t');
      const real = log.sync.bind(log);
      const failing = Promise.withResolvers<void>();
      let running: Promise<void> | undefined;
      Object.defineProperty(log, 'runningSync', { get: () => running });
      log.sync = () => (running = failing.promise.finally(() => (running = undefined)));
      await insert(2, 'later');
      await begin(3);
      await expect.poll(() => running !== undefined).toBe(true);
      log.sync = real;
      const fail = () => failing.reject(new Error('the disk is ill'));
      if (when === 'before') {
        fail();
        await later();
      }
      const finishing = finish();
      if (when === 'after') fail();
      await expect(finishing).rejects.toMatchObject({ code: 'storage_unsure' });
    },
  );
});
