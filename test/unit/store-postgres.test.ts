import { createServer, connect as connectTo, type Socket, type AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { Store, StoreError } from '../../src/store/index.ts';
import { administer, describePostgres, serverFolder } from '../support/databases.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});
const open = async (url: string, notices: string[] = []) => {
  const store = await Store.open({ url, endpointId: 'here', onNotice: (notice) => notices.push(notice) });
  undo.push(() => store.close());
  return store;
};
const nameOf = (url: string) => /\/\/\/(\w+)/.exec(url)?.[1] ?? '';
const cutAll = (name: string) =>
  administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
const agent = { name: 'a', spec: '{}', created_at: '', updated_at: '' };
const names = (store: Store) => store.read((db) => db.selectFrom('agents').select('name').execute());

/** The server on a port, through something that can be cut and go silent. */
async function proxied(url: string) {
  const socketPath = `${await serverFolder()}/.s.PGSQL.5432`;
  const sockets = new Set<Socket>();
  /** Looks at what the client sends, before the server gets it. */
  let onSent: (sent: string) => 'pass' | 'cut' | 'cut_after' = () => 'pass';
  const server = createServer((client) => {
    const upstream = connectTo(socketPath);
    const both = [client, upstream];
    const cut = () => both.forEach((socket) => socket.destroy());
    for (const socket of both) {
      sockets.add(socket);
      socket.on('error', cut).on('close', cut);
    }
    client.on('data', (bytes) => {
      const what = onSent(bytes.toString('latin1'));
      if (what === 'cut') return cut();
      upstream.write(bytes);
      // The server has answered, but the answer is lost.
      if (what === 'cut_after') upstream.once('data', cut);
    });
    upstream.on('data', (bytes) => {
      // The server has committed, but the answer is lost.
      if (!silent) client.write(bytes);
    });
  });
  let silent = false;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  undo.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `postgres://lathe:hunter2@127.0.0.1:${port}/${nameOf(url)}`,
    onSent(listener: typeof onSent) {
      onSent = listener;
    },
    silence(yes: boolean) {
      silent = yes;
    },
  };
}

describePostgres('PostgreSQL', (url) => {
  it('continues after every connection was cut', async () => {
    const at = await url();
    const notices: string[] = [];
    const store = await open(at, notices);
    await names(store);
    await cutAll(nameOf(at));
    expect(await names(store)).toEqual([]);
    expect(await store.transaction((tx) => store.nextNumber(tx, 'task'))).toBe(1);
    for (const notice of notices) expect(notice).toMatch(/^the PostgreSQL database "test_\w+" at .*:/);
  });

  it('retries a transaction whose connection was cut, also between two statements', async () => {
    const at = await url();
    const store = await open(at);
    let times = 0;
    const n = await store.transaction(async (tx) => {
      await tx.insertInto('agents').values(agent).execute();
      if (times++ === 0) {
        await cutAll(nameOf(at));
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      return await store.nextNumber(tx, 'task');
    });
    expect([n, times]).toEqual([1, 2]);
    expect(await names(store)).toEqual([{ name: 'a' }]);
  });

  it('queries the outcome of a transaction whose connection was lost during the commit', async () => {
    const proxy = await proxied(await url());
    const store = await open(proxy.url);
    // Either it never reached the server and is retried, or it was committed and the answer was lost.
    for (const [cut, tries] of [
      ['cut', 2],
      ['cut_after', 1],
    ] as const) {
      proxy.onSent((sent) => {
        if (!/^Q....commit/s.test(sent)) return 'pass';
        proxy.onSent(() => 'pass');
        proxy.silence(cut === 'cut_after');
        if (cut === 'cut_after') setTimeout(() => proxy.silence(false), 300);
        return cut;
      });
      let times = 0;
      await store.transaction(async (tx) => {
        times++;
        await tx
          .insertInto('agents')
          .values({ ...agent, name: cut })
          .execute();
      });
      expect([cut, times]).toEqual([cut, tries]);
    }
    expect(await names(store)).toEqual([{ name: 'cut' }, { name: 'cut_after' }]);
  });

  it.runIf(runsRest)('reports storage_unsure when the server stays unreachable after a commit', async () => {
    const proxy = await proxied(await url());
    const store = await open(proxy.url);
    proxy.onSent((sent) => {
      if (!/^Q....commit/s.test(sent)) return 'pass';
      proxy.silence(true);
      return 'cut_after';
    });
    let times = 0;
    const work = store.transaction(async (tx) => {
      times++;
      await tx.insertInto('agents').values(agent).execute();
    });
    await expect(work).rejects.toMatchObject({
      code: 'storage_unsure',
      message: expect.stringContaining('check whether they were saved'),
    });
    proxy.silence(false);
    proxy.onSent(() => 'pass');
    expect(times).toBe(1);
    expect(await names(store)).toHaveLength(1);
  });

  it('retries a transaction that the server aborted', async () => {
    const at = await url();
    const store = await open(at);
    await store.transaction((tx) => tx.insertInto('agents').values(agent).execute());
    let times = 0;
    // Another program locks in the other order, on the same table.
    await store.transaction(async (tx) => {
      await tx.updateTable('agents').set({ spec: '1' }).execute();
      if (times++ > 0) return;
      const other = administer(
        "set deadlock_timeout = '10s'; begin; update counters set value = value; update agents set spec = '2'; commit",
        nameOf(at),
      );
      undo.push(() => other);
      await until(async () => {
        const { rows } = await administer(
          "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
          nameOf(at),
        );
        return rows.length > 0;
      });
      await tx.updateTable('counters').set({ value: 7 }).execute();
    });
    expect(times).toBe(2);
  });

  it('rejects a read-only server', async () => {
    const at = await url();
    await administer(`alter database ${nameOf(at)} set default_transaction_read_only = on`);
    await expect(Store.open({ url: at, endpointId: 'here' })).rejects.toThrow('name the primary server');
  });

  it('explains what to do when the database does not exist or holds other tables', async () => {
    const at = await url();
    await expect(open(at.replace(nameOf(at), 'nowhere'))).rejects.toThrow(
      /"nowhere" does not exist; create it/,
    );
    await administer('create table tasks (chore text)', nameOf(at));
    await expect(open(at)).rejects.toThrow('use a separate database');
  });

  it('explains what to do when the user may not create tables', async () => {
    const at = await url();
    await administer(
      `do $$ begin create role guest login; exception when duplicate_object then null; end $$`,
    );
    await expect(open(at.replace('user=lathe', 'user=guest'))).rejects.toThrow('let this user create');
  });

  it('hosts in two schemas of one database do not wait for one another', async () => {
    const at = await url();
    await administer('create schema one; create schema two', nameOf(at));
    const [one, two] = [
      await open(`${at}&options=-c%20search_path%3Done`),
      await open(`${at}&options=-c%20search_path%3Dtwo`),
    ];
    await one.transaction(async (tx) => {
      await one.nextNumber(tx, 'task');
      expect(await two.transaction((other) => two.nextNumber(other, 'task'))).toBe(1);
    });
  });

  it('a password is in no error', async () => {
    const proxy = await proxied(await url());
    const store = await open(proxy.url);
    proxy.onSent(() => 'cut');
    const lost = await names(store).catch((error: unknown) => error);
    expect(lost).toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining('cannot be reached'),
    });
    expect(inspect(lost, { depth: 9, showHidden: true })).not.toContain('hunter2');
  });
});

describe('a server that cannot be reached', () => {
  it.each([
    [
      'no server listens',
      'postgres://lathe:hunter2@127.0.0.1:1/x',
      /"x" at 127\.0\.0\.1:1 cannot be reached .*ECONNREFUSED/,
    ],
    ['no server listens at any of its addresses', 'postgres://lathe:hunter2@localhost:1/x', /ECONNREFUSED/],
    [
      'no such host',
      'postgres://lathe:hunter2@no-such-host.invalid/x',
      /no-such-host\.invalid.*check that it runs/,
    ],
    ['no URL', 'postgres://lathe:hunter2@[', /cannot be read .*write postgres:\/\/USER:PASSWORD@HOST/],
    ['no port', 'postgres://lathe:hunter2@host:port/x', /write postgres:\/\//],
    ['a badly written password', 'postgres://lathe:hunter2%zz@host/x', /cannot be (read|reached)/],
  ])('%s', async (_, url, message) => {
    const refusal: unknown = await open(url).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(StoreError);
    expect(refusal).toMatchObject({ code: 'storage_failed', message: expect.stringMatching(message) });
    expect(inspect(refusal, { depth: 9, showHidden: true })).not.toContain('hunter2');
  });
});
