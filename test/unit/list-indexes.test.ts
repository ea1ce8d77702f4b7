import { CompiledQuery, type Kysely, type KyselyPlugin, type QueryId, type RootOperationNode } from 'kysely';
import { afterEach, expect, it } from 'vitest';
import { TaskService } from '../../src/agent/tasks/task-service.ts';
import { listRequests } from '../../src/gateway/ledger/request-records.ts';
import type { RequestQuery } from '../../src/gateway/ledger/types.ts';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { Store } from '../../src/store/index.ts';
import { freshSqlite } from '../support/databases.ts';

// On SQLite the process waits while a list is read: each goes along an index, and no list sorts all rows.

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A store, and the plans of what was read by it. */
function planned<Db>(store: { read<T>(work: (db: Kysely<Db>) => Promise<T>): Promise<T> }) {
  const queries: { readonly node: RootOperationNode; readonly queryId: QueryId }[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: (query) => {
      queries.push(query);
      return query.node;
    },
    transformResult: async ({ result }) => result,
  };
  return {
    watched: {
      ...store,
      read: <T>(work: (db: Kysely<Db>) => Promise<T>) => store.read((db) => work(db.withPlugin(plugin))),
    },
    plan: () =>
      store.read(async (db) => {
        const last = queries.at(-1);
        if (!last) throw new Error('nothing was read');
        const { sql, parameters } = db.getExecutor().compileQuery(last.node, last.queryId);
        const explain = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
        return (await db.executeQuery<{ detail: string }>(explain)).rows
          .map(({ detail }) => detail)
          .join('; ');
      }),
  };
}

it('of tasks, newest first', async () => {
  const store = await Store.open({ url: freshSqlite(), endpointId: 'here' });
  closing.push(() => store.close());
  const { watched, plan } = planned(store as never);
  const tasks = new TaskService({ store: watched } as never);
  for (const state of [undefined, 'completed', 'running'] as const) {
    await tasks.list(10, state);
    expect([state, await plan()]).toEqual([state, expect.stringContaining('USING INDEX')]);
    expect(await plan()).not.toContain('ORDER BY');
  }
});

it('of requests at a gateway, newest first, of an account or key too', async () => {
  const url = freshSqlite();
  const store = await GatewayStore.open({ url, replicaId: 'here' });
  closing.push(() => store.close());
  const { watched, plan } = planned(store as never);
  const all = { hasFailed: false, limit: 10, accountId: undefined, keyId: undefined, since: undefined };
  const queries: readonly [Partial<RequestQuery>, index: string][] = [
    [{}, 'ended_at'],
    [{ hasFailed: true }, 'ended_at'],
    [{ accountId: 'a' }, 'account_id'],
    [{ keyId: 'k' }, 'key_id'],
    [{ accountId: 'a', since: '2026-01-01T00:00:00.000Z' }, 'account_id'],
  ];
  for (const [query, index] of queries) {
    await listRequests(watched as never, { ...all, before: undefined, ...query });
    expect([query, await plan()]).toEqual([
      query,
      expect.stringContaining(`USING INDEX gateway_requests_by_${index}`),
    ]);
    expect(await plan()).not.toContain('B-TREE FOR ORDER BY');
  }
});
