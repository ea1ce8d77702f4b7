import { afterEach, describe, expect, it } from 'vitest';
import { Store, StoreError } from '../../src/store/index.ts';
import { describeStores } from '../support/databases.ts';

describeStores('the store', (url) => {
  const opened: Store[] = [];
  const open = async (at: string, endpointId = 'here') => {
    const store = await Store.open({ url: at, endpointId });
    opened.push(store);
    return store;
  };
  const fresh = async () => await open(await url());
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
  });
  const agent = (name: string) => ({ name, spec: '{}', created_at: 'then', updated_at: 'then' });
  const names = (store: Store) =>
    store.read(async (db) =>
      (await db.selectFrom('agents').select('name').orderBy('name').execute()).map((row) => row.name),
    );

  it('keeps what was written, over a restart', async () => {
    const at = await url();
    const first = await open(at);
    await first.transaction((tx) => tx.insertInto('agents').values(agent('a')).execute());
    await first.close();
    expect(await names(await open(at))).toEqual(['a']);
  });

  it('rolls back a transaction that throws, and passes its error on', async () => {
    const store = await fresh();
    const ours = new Error('ours');
    const work = store.transaction(async (tx) => {
      await tx.insertInto('agents').values(agent('a')).execute();
      await store.nextNumber(tx, 'task');
      throw ours;
    });
    await expect(work).rejects.toBe(ours);
    expect(await names(store)).toEqual([]);
    expect(await store.transaction((tx) => store.nextNumber(tx, 'task'))).toBe(1);
  });

  it('rejects further statements after one failed in a transaction', async () => {
    const store = await fresh();
    const work = store.transaction(async (tx) => {
      await tx.insertInto('agents').values(agent('a')).execute();
      await tx
        .insertInto('agents')
        .values(agent('a'))
        .execute()
        .catch(() => undefined);
      await tx.insertInto('agents').values(agent('b')).execute();
    });
    await expect(work).rejects.toBeInstanceOf(StoreError);
    const swallowed = store.transaction(async (tx) => {
      await tx.insertInto('agents').values(agent('a')).execute();
      await tx
        .insertInto('agents')
        .values(agent('a'))
        .execute()
        .catch(() => undefined);
    });
    await expect(swallowed).rejects.toBeInstanceOf(StoreError);
    expect(await names(store)).toEqual([]);
  });

  it('returns consecutive numbers to concurrent callers of two stores on one database', async () => {
    const at = await url();
    const stores = [await open(at, 'one'), await open(at, 'two')];
    const writes = Array.from({ length: 40 }, (_, index) => {
      const store = stores[index % 2] as Store;
      return store.transaction((tx) => store.nextNumber(tx, 'pending'));
    });
    const numbers = await Promise.all(writes);
    expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
  });

  it('isolates a transaction from other writers between its reads and writes', async () => {
    const at = await url();
    const stores = [await open(at, 'one'), await open(at, 'two')];
    const maxNames = 5;
    const writes = Array.from({ length: 30 }, (_, index) =>
      (stores[index % 2] as Store).transaction(async (tx) => {
        const there = await tx.selectFrom('agents').select('name').execute();
        if (there.length < maxNames)
          await tx
            .insertInto('agents')
            .values(agent(`a${index}`))
            .execute();
      }),
    );
    await Promise.all(writes);
    expect(await names(stores[0] as Store)).toHaveLength(maxNames);
  });

  it('chains rows of two hosts each without gaps', async () => {
    const at = await url();
    const stores = [await open(at, 'one'), await open(at, 'two')];
    const add = (store: Store) =>
      store.transaction(async (tx) => {
        const last = await tx
          .selectFrom('receipts')
          .select(['seq', 'digest'])
          .where('endpoint_id', '=', store.endpointId)
          .orderBy('seq', 'desc')
          .limit(1)
          .executeTakeFirst();
        const seq = (last?.seq ?? 0) + 1;
        await tx
          .insertInto('receipts')
          .values({
            endpoint_id: store.endpointId,
            seq,
            id: `${store.endpointId}${seq}`,
            kind: 'task',
            ended_at: store.time(),
            receipt: '{}',
            prev_digest: last?.digest ?? '',
            digest: `d${seq}`,
          })
          .execute();
      });
    await Promise.all(Array.from({ length: 24 }, (_, index) => add(stores[index % 2] as Store)));
    const rows = await (stores[0] as Store).read((db) =>
      db.selectFrom('receipts').select(['endpoint_id', 'seq', 'prev_digest']).orderBy('seq').execute(),
    );
    for (const host of ['one', 'two'])
      expect(rows.filter((row) => row.endpoint_id === host).map((row) => row.prev_digest)).toEqual([
        '',
        ...Array.from({ length: 11 }, (_, index) => `d${index + 1}`),
      ]);
  });

  it('reads the state before a running transaction, without waiting for it', async () => {
    const store = await fresh();
    let goOn = () => {};
    const wait = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let written = () => {};
    const isWritten = new Promise<void>((resolve) => {
      written = resolve;
    });
    const work = store.transaction(async (tx) => {
      await tx.insertInto('agents').values(agent('a')).execute();
      written();
      await wait;
    });
    await isWritten;
    expect(await names(store)).toEqual([]);
    goOn();
    await work;
    expect(await names(store)).toEqual(['a']);
  });

  it('rejects calls within its own transaction, and accepts calls started there after it ended', async () => {
    const store = await fresh();
    let later: Promise<string[]> | undefined;
    await store.transaction(async () => {
      await expect(store.read(() => Promise.resolve())).rejects.toThrow('within store.transaction');
      await expect(store.transaction(() => Promise.resolve())).rejects.toThrow('within store.transaction');
      later = new Promise((resolve) => {
        setTimeout(resolve, 50);
      }).then(() => names(store));
    });
    expect(await later).toEqual([]);
  });

  it('runs migrations once when it is opened by many at once', async () => {
    const at = await url();
    const stores = await Promise.all(Array.from({ length: 5 }, () => open(at)));
    expect(
      await Promise.all(stores.map((store) => store.transaction((tx) => store.appendAct(tx, act)))),
    ).toEqual(expect.arrayContaining([1, 2, 3, 4, 5]));
  });
  const act = { verb: 'approve', target: 'p1', by: 'operator', outcome: 'applied' } as const;

  it('refuses a database that a newer program wrote', async () => {
    const at = await url();
    const store = await open(at);
    await store.transaction((tx) =>
      tx
        .withTables<{ lathe_migrations: { name: string; at: string } }>()
        .insertInto('lathe_migrations')
        .values({ name: '999-later', at: 'then' })
        .execute(),
    );
    await expect(open(at)).rejects.toThrow(/newer lathe \(it has 999-later\)/);
  });

  it('finishes running work before it closes, and rejects later calls', async () => {
    const store = await fresh();
    const work = store.transaction(async (tx) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      await tx.insertInto('agents').values(agent('a')).execute();
    });
    const closing = store.close();
    await expect(store.transaction(() => Promise.resolve())).rejects.toThrow('the host is stopping');
    await expect(store.read(() => Promise.resolve())).rejects.toBeInstanceOf(StoreError);
    await expect(work).resolves.toBeUndefined();
    await closing;
  });

  it('stores texts unchanged except NUL, and integers above 32 bits', async () => {
    const store = await fresh();
    const n = 2 ** 52;
    const spec = `${String.fromCodePoint(0x1f600)} "'\\ \r\n\t \u2028`;
    await store.transaction(async (tx) => {
      await tx
        .insertInto('agents')
        .values({ ...agent('a'), spec })
        .execute();
      await tx
        .insertInto('agents')
        .values({ ...agent('b'), spec: 'x\0y' })
        .execute();
      await tx.updateTable('counters').set({ value: n }).where('name', '=', 'task').execute();
    });
    const specs = await store.read((db) => db.selectFrom('agents').select('spec').orderBy('name').execute());
    expect(specs.map((row) => row.spec)).toEqual([spec, 'x\uFFFDy']);
    expect(await store.transaction((tx) => store.nextNumber(tx, 'task'))).toBe(n + 1);
  });

  it('sorts texts by their code points', async () => {
    const store = await fresh();
    const some = ['Z', 'a', '_b', 'a-b', 'ab', 'B', 'é'];
    await store.transaction((tx) => tx.insertInto('agents').values(some.map(agent)).execute());
    expect(await names(store)).toEqual([...some].sort());
  });

  it('says how many rows a statement changed', async () => {
    const store = await fresh();
    const changed = await store.transaction(async (tx) => {
      await tx.insertInto('agents').values(['a', 'b', 'c'].map(agent)).execute();
      const updated = await tx
        .updateTable('agents')
        .set({ spec: '1' })
        .where('name', '>', 'a')
        .executeTakeFirst();
      const deleted = await tx.deleteFrom('agents').executeTakeFirst();
      return [updated.numUpdatedRows, deleted.numDeletedRows];
    });
    expect(changed).toEqual([2n, 3n]);
  });
});

describe('a database that cannot be opened', () => {
  it.each([
    ['no kind', 'lathe.db', /the database URL has no scheme: write sqlite:PATH/],
    ['another kind', 'mysql://root:hunter2@db/x', /scheme mysql: is not supported/],
    ['memory', 'sqlite::memory:', /in memory is not durable/],
  ])('%s', async (_, url, message) => {
    const failure = await Store.open({ url, endpointId: 'here' }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StoreError);
    expect((failure as StoreError).message).toMatch(message);
    expect((failure as StoreError).message).not.toContain('hunter2');
  });
});
