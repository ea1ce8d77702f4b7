import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Store, StoreError } from '../../src/store/index.ts';
import { administer, describePostgres, serverFolder } from '../support/databases.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';

const reason = noDisks();
const describeDisks = reason === undefined ? describe : describe.skip;
const title = (name: string) => (reason === undefined ? name : `${name}: skipped, ${reason}`);

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});
const disk = (size: string) => {
  const made = smallDisk(size);
  undo.push(made.remove);
  return made;
};
const open = async (url: string) => {
  const store = await Store.open({ url, endpointId: 'here' });
  undo.push(() => store.close());
  return store;
};

/** An act of several rows: some of them large. */
const act = (store: Store, name: string, kilobytes = 24) =>
  store.transaction(async (tx) => {
    await store.appendAct(tx, { verb: 'agent.create', target: name, by: 'operator', outcome: 'applied' });
    for (const part of [0, 1, 2])
      await tx
        .insertInto('agents')
        .values({ name: `${name}.${part}`, spec: noise(kilobytes), created_at: '', updated_at: '' })
        .execute();
  });
/** Incompressible, because PostgreSQL compresses. */
const noise = (kilobytes: number) =>
  Array.from({ length: kilobytes }, () =>
    Buffer.from(crypto.getRandomValues(new Uint8Array(768))).toString('base64'),
  ).join('');

/** Acts until the disk is full. @returns names of those that were acknowledged, and the refusal */
async function actUntilFull(store: Store, before: string) {
  const acknowledged: string[] = [];
  for (let index = 0; index < 4000; index++) {
    const name = `${before}${index}`;
    try {
      await act(store, name);
    } catch (refusal) {
      return { acknowledged, refusal };
    }
    acknowledged.push(name);
  }
  throw new Error('the disk is never full');
}

async function expectExactly(store: Store, acknowledged: readonly string[]) {
  const agents = await store.read((db) => db.selectFrom('agents').select('name').execute());
  expect(agents.map((row) => row.name).sort()).toEqual(
    acknowledged.flatMap((name) => [0, 1, 2].map((part) => `${name}.${part}`)).sort(),
  );
  const acts = await store.read((db) =>
    db.selectFrom('acts').select(['seq', 'target']).orderBy('seq').execute(),
  );
  expect(acts).toEqual(
    acknowledged.map((target, index) => expect.objectContaining({ seq: index + 1, target })),
  );
}

describeDisks(title('a full disk (SQLite)'), () => {
  it('refuses whole transactions, answers reads, and goes on when there is room', async () => {
    const small = disk('6m');
    const url = `sqlite:${join(small.folder, 'lathe.db')}`;
    const store = await open(url);
    small.fill(2_000_000);
    const { acknowledged, refusal } = await actUntilFull(store, 'a');
    expect(refusal).toBeInstanceOf(StoreError);
    expect(refusal).toMatchObject({ code: 'storage_full', message: expect.stringContaining('is full') });
    expect(acknowledged.length).toBeGreaterThan(3);
    await expectExactly(store, acknowledged);
    for (let index = 0; index < 5; index++)
      await expect(act(store, 'more', 100)).rejects.toMatchObject({ code: 'storage_full' });
    await expectExactly(store, acknowledged);

    small.makeRoom();
    const all = [...acknowledged];
    for (const name of ['b1', 'b2', 'b3']) {
      await act(store, name);
      all.push(name);
    }
    await expectExactly(store, all);
    await store.close();
    await expectExactly(await open(url), all);
  });

  it('recovers from a full disk repeatedly, whatever the space left', async () => {
    const small = disk('12m');
    const store = await open(`sqlite:${join(small.folder, 'lathe.db')}`);
    const all: string[] = [];
    for (let round = 0; round < 12; round++) {
      small.fill(round * 30_000 + (round % 3) * 1_000);
      const { acknowledged, refusal } = await actUntilFull(store, `r${round}.`);
      expect(refusal).toMatchObject({ code: 'storage_full' });
      all.push(...acknowledged);
      await expectExactly(store, all);
      small.makeRoom();
    }
    await act(store, 'end');
    await expectExactly(store, [...all, 'end']);
  });

  it('reports a full disk at start, with and without an existing database', async () => {
    const small = disk('2m');
    small.fill();
    const url = `sqlite:${join(small.folder, 'lathe.db')}`;
    await expect(Store.open({ url, endpointId: 'here' })).rejects.toMatchObject({ code: 'storage_full' });
    small.makeRoom();
    const store = await Store.open({ url, endpointId: 'here' });
    await act(store, 'a');
    await store.close();
    small.fill();
    await expect(Store.open({ url, endpointId: 'here' })).rejects.toMatchObject({ code: 'storage_full' });
    small.makeRoom();
    await expectExactly(await open(url), ['a']);
  });

  it('reports a read-only folder', async () => {
    const small = disk('2m');
    const url = `sqlite:${join(small.folder, 'lathe.db')}`;
    const store = await Store.open({ url, endpointId: 'here' });
    await store.close();
    small.makeReadOnly();
    const failure = await Store.open({ url, endpointId: 'here' }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'storage_failed', message: expect.stringMatching(/write/) });
    const other = `sqlite:${join(small.folder, 'other.db')}`;
    await expect(Store.open({ url: other, endpointId: 'here' })).rejects.toThrow('is read-only');
  });
});

if (reason === undefined)
  describePostgres('a full disk (PostgreSQL)', () => {
    it('refuses whole transactions, answers reads, and goes on when there is room', async () => {
      const small = disk('24m');
      spawnSync('chown', ['--reference', await serverFolder(), small.folder]);
      await administer(`create tablespace small location '${small.folder}'`);
      await administer('create database small template template0 tablespace small strategy file_copy');
      undo.push(async () => {
        await administer('drop database small with (force)');
        await administer('drop tablespace small');
      });
      const store = await open(`postgres:///small?host=${await serverFolder()}&user=lathe`);
      small.fill(2_000_000);
      const { acknowledged, refusal } = await actUntilFull(store, 'a');
      expect(refusal).toMatchObject({ code: 'storage_full' });
      await expectExactly(store, acknowledged);
      small.makeRoom();
      await act(store, 'b');
      await expectExactly(store, [...acknowledged, 'b']);
    });
  });
