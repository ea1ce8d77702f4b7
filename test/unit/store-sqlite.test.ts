import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it } from 'vitest';
import { Store, StoreError } from '../../src/store/index.ts';
import { freshDataDir } from '../support/host.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

const opened: Store[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()));
});
const open = async (path: string) => {
  const store = await Store.open({ url: `sqlite:${path}`, endpointId: 'here' });
  opened.push(store);
  return store;
};
const freshPath = () => join(freshDataDir(), 'lathe.db');
const refusalOf = async (path: string) => {
  const refusal: unknown = await open(path).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StoreError);
  expect(refusal).toMatchObject({ code: 'storage_failed' });
  return (refusal as StoreError).message;
};

describe('a file that is not a lathe database', () => {
  it('another file', async () => {
    const path = freshPath();
    writeFileSync(path, 'The quick brown fox jumps over the lazy dog. '.repeat(100));
    expect(await refusalOf(path)).toMatch(/is not an SQLite database: name another file/);
    expect(readFileSync(path, 'utf8')).toMatch(/^The quick brown fox/);
  });

  it('in a folder that does not exist', async () => {
    expect(await refusalOf(join(freshDataDir(), 'not/there/lathe.db'))).toMatch(
      /not\/there does not exist: create it/,
    );
  });

  it('in a folder that is a file', async () => {
    const path = freshPath();
    writeFileSync(path, '');
    expect(await refusalOf(join(path, 'lathe.db'))).toMatch(/lathe\.db is not a folder: name another file/);
  });

  it('a folder', async () => {
    const path = freshPath();
    mkdirSync(path);
    expect(await refusalOf(path)).toMatch(
      /lathe\.db could not be read or written: .*must be on a working disk/,
    );
  });

  it('the tables of another program', async () => {
    const path = freshPath();
    const other = new DatabaseSync(path);
    other.exec('create table tasks (chore text)');
    other.close();
    expect(await refusalOf(path)).toMatch(/table "?tasks"? already exists/);
    const again = new DatabaseSync(path);
    expect(again.prepare('select name from sqlite_schema').all()).toEqual([{ name: 'tasks' }]);
    again.close();
  });

  it('damaged in the middle: reads of that part fail with advice', async () => {
    const path = freshPath();
    const store = await open(path);
    const row = (index: number) => ({
      name: `a${index}`,
      spec: 'x'.repeat(2000),
      created_at: '',
      updated_at: '',
    });
    await store.transaction((tx) =>
      tx
        .insertInto('agents')
        .values(Array.from({ length: 200 }, (_, index) => row(index)))
        .execute(),
    );
    await store.close();
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 4096 * 40, 4096 * 120);
    writeFileSync(path, bytes);
    const damaged = await open(path).catch((error: unknown) => error);
    const reading =
      damaged instanceof Store
        ? await damaged
            .read((db) => db.selectFrom('agents').selectAll().execute())
            .catch((error: unknown) => error)
        : damaged;
    expect(reading).toMatchObject({
      code: 'storage_failed',
      message: expect.stringMatching(/is damaged: .*start with a new one/),
    });
  });
});

describe('the file', () => {
  it('is readable by its owner only', async () => {
    const path = freshPath();
    const store = await open(path);
    await store.transaction((tx) => store.nextNumber(tx, 'task'));
    const modes = ['', '-wal', '-shm'].map((end) => statSync(path + end).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600, 0o600]);
  });

  it('is one file after a normal close, and its log is truncated', async () => {
    const path = freshPath();
    const store = await open(path);
    for (let index = 0; index < 30; index++)
      await store.transaction((tx) =>
        tx
          .insertInto('agents')
          .values({ name: `a${index}`, spec: 'x'.repeat(1_000_000), created_at: '', updated_at: '' })
          .execute(),
      );
    expect(statSync(`${path}-wal`).size).toBeLessThan(16_000_000);
    await store.close();
    expect(() => statSync(`${path}-wal`)).toThrow('ENOENT');
  });
});

describe('another process on the file', () => {
  it('is waited for without blocking the event loop', async () => {
    const path = freshPath();
    const store = await open(path);
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 5);
    const work = store.transaction((tx) => store.nextNumber(tx, 'task'));
    await until(() => ticks > 10);
    clearInterval(ticking);
    expect(await store.read((db) => db.selectFrom('counters').selectAll().execute())).toHaveLength(5);
    other.exec('commit');
    expect(await work).toBe(1);
    other.close();
  });

  it.runIf(runsRest)('that never releases its lock is reported', async () => {
    const path = freshPath();
    const store = await open(path);
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    const work = store.transaction((tx) => store.nextNumber(tx, 'task'));
    await expect(work).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringMatching(/locked by another process for too long/),
    });
    other.exec('rollback');
    other.close();
    expect(await store.transaction((tx) => store.nextNumber(tx, 'task'))).toBe(1);
  });
});

describe('reading', () => {
  it('writes nothing', async () => {
    const store = await open(freshPath());
    const work = store.read((db) => db.deleteFrom('counters').execute());
    await expect(work).rejects.toMatchObject({ code: 'storage_failed' });
  });

  it('sees a column that was added meanwhile', async () => {
    const path = freshPath();
    const store = await open(path);
    const read = () => store.read((db) => db.selectFrom('counters').selectAll().executeTakeFirst());
    expect(await read()).not.toHaveProperty('more');
    const other = new DatabaseSync(path);
    other.exec("alter table counters add column more text default 'x'");
    other.close();
    expect(await read()).toHaveProperty('more', 'x');
  });
});
