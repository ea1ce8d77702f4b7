/** Usage: the sums that the ledger's commits keep, what is read from them, and how a database comes to have them. */
import { CompiledQuery, type KyselyPlugin, type QueryId, type RootOperationNode, sql } from 'kysely';
import { afterAll, describe, expect, it } from 'vitest';
import {
  daysIn,
  nextDay,
  parseUsageDimensions,
  parseUsageSince,
  parseUsageUntil,
} from '../../src/gateway/usage/query.ts';
import { readUsage, type UsageQuery } from '../../src/gateway/usage/report.ts';
import { usageSums } from '../../src/gateway/usage/rollups.ts';
import { otherTag, readTag, TagLimiter } from '../../src/gateway/usage/tags.ts';
import { toUsd } from '../../src/gateway/ledger/money.ts';
import { describeStores } from '../support/databases.ts';
import {
  ending,
  ledgerOn,
  type OpenLedger,
  type Payer,
  payerOf,
  reservation,
  settlement,
} from '../support/ledger.ts';

const january = Date.UTC(2026, 0, 30, 12);
const dayMs = 86_400_000;
const all: Pick<UsageQuery, 'since' | 'until'> = { since: '2026-01-01', until: '2026-12-31' };

describeStores('usage', (url) => {
  const open: OpenLedger[] = [];
  afterAll(async () => {
    for (const one of open) {
      expect(one.faults).toEqual([]);
      await one.close();
    }
  });
  let time = january;
  const start = async (at?: string) => {
    const made = await ledgerOn(at ?? (await url()), { now: () => new Date(time) });
    open.push(made);
    return made;
  };
  /** Lines as `group requests/prompt/cached/completion/spent`. */
  const report = async ({ ledger }: OpenLedger, query: Partial<UsageQuery>) =>
    (await ledger.usage({ by: ['model'], ...all, ...query }))?.map(
      ({ group, requests, promptTokens, cachedTokens, completionTokens, spent }) =>
        `${group.join(' ')} ${[requests, promptTokens, cachedTokens, completionTokens, spent].join('/')}`,
    );
  const settleOne = async (
    { ledger }: OpenLedger,
    payer: Payer,
    cost: bigint,
    { tag, ...more }: { tag?: string; effectiveModel?: string; provider?: string } = {},
  ) => {
    const requested = reservation(payer, 1000n, tag === undefined ? {} : { tag });
    await ledger.reserve(requested);
    await ledger.settle(requested.requestId, settlement(cost, more));
    return requested.requestId;
  };
  const change = (opened: OpenLedger, statement: string) =>
    opened.store.transaction(async (tx) => {
      await sql.raw(statement).execute(tx);
    });

  it('counts what was charged, once, however a request ended', async () => {
    time = january;
    const opened = await start();
    const { ledger } = opened;
    const payer = await payerOf(ledger, { credit: 10_000n });
    const id = await settleOne(opened, payer, 100n);
    await ledger.settle(id, settlement(999n));
    await ledger.release(id, ending());
    // The operator pays what is above the hold.
    await settleOne(opened, payer, 1200n);
    // The caller's own credential.
    await settleOne(opened, payer, 0n, { effectiveModel: 'own' });
    // A fallback answered.
    await settleOne(opened, payer, 7n, { effectiveModel: 'spare', provider: 'other' });
    const failed = reservation(payer, 50n);
    await ledger.reserve(failed);
    await ledger.release(failed.requestId, ending({ status: 502, outcome: 'failed' }));
    ledger.recordRefusal(reservation(payer, 1n), ending({ status: 402, outcome: 'failed' }));
    await ledger.credit(payer.accountId, 500n);
    await ledger.credit(payer.accountId, -400n);
    expect(await report(opened, { by: ['provider', 'model'] })).toEqual([
      'other spare 1/16/3/4/7',
      'some one 3/32/6/8/1100',
      'some own 1/16/3/4/0',
    ]);
    expect((await ledger.audit()).faults).toEqual([]);
  });

  it('of an account is its own, and with those below it where asked for', async () => {
    time = january;
    const opened = await start();
    const { ledger } = opened;
    const payers: Payer[] = [];
    for (let level = 0; level < 3; level++) {
      const payer = await payerOf(ledger, { credit: 10_000n });
      const above = payers[level - 1];
      if (above) await ledger.updateAccount(payer.accountId, { parent: above.accountId });
      payers.push(payer);
      await settleOne(opened, payer, 10n ** BigInt(level));
    }
    await settleOne(opened, await payerOf(ledger, { credit: 10_000n }), 999n);
    const spentBy = async (accountId = '', withDescendants = false) =>
      (await report(opened, { accountId, withDescendants }))?.map((line) => line.split('/').at(-1));
    const ids = payers.map(({ accountId }) => accountId);
    for (const [index, own] of ['1', '10', '100'].entries()) expect(await spentBy(ids[index])).toEqual([own]);
    for (const [index, sum] of ['111', '110', '100'].entries())
      expect(await spentBy(ids[index], true)).toEqual([sum]);
  });

  it('of a gateway that died counts the estimate that was charged', async () => {
    time = january;
    const at = await url();
    const dead = await ledgerOn(at, { now: () => new Date(time) });
    const payer = await payerOf(dead.ledger, { credit: 10_000n });
    await dead.ledger.reserve(reservation(payer, 400n, { tag: 'ann' }));
    await dead.close();
    const opened = await start(at);
    expect(await report(opened, { by: ['tag', 'model'] })).toEqual(['ann one 1/0/0/0/100']);
    expect((await opened.ledger.audit()).faults).toEqual([]);
  });

  it('is added up by any columns, for a period, a key or an account', async () => {
    time = january;
    const opened = await start();
    const ann = await payerOf(opened.ledger, { credit: 10_000n });
    const bo = await payerOf(opened.ledger, { credit: 10_000n });
    for (const [after, payer, cost, more] of [
      [0, ann, 1n, { tag: 'u' }],
      [1, ann, 2n, {}],
      [2, ann, 4n, { tag: 'ü' }],
      [2, bo, 8n, { tag: 'u', effectiveModel: 'two' }],
    ] as const) {
      time = january + after * dayMs;
      await settleOne(opened, payer, cost, more);
    }
    const spend = async (query: Partial<UsageQuery>) =>
      (await report(opened, query))?.map((line) => line.replace(/ \d+\/.*\//, ' '));
    expect(await spend({ by: ['day'] })).toEqual(['2026-01-30 1', '2026-01-31 2', '2026-02-01 12']);
    expect(await spend({ by: ['month', 'tag'] })).toEqual([
      '2026-01  2',
      '2026-01 u 1',
      '2026-02 u 8',
      '2026-02 ü 4',
    ]);
    expect(await spend({ by: ['account'], keyId: ann.keyId })).toEqual([`${ann.accountId} 7`]);
    expect(await spend({ by: ['key', 'model'], accountId: bo.accountId })).toEqual([`${bo.keyId} two 8`]);
    const period = { since: '2026-01-31', until: '2026-01-31' };
    expect(await spend({ ...period })).toEqual(['one 2']);
    expect(await spend({ ...period, keyId: bo.keyId })).toEqual([]);
    const limited = { by: ['day'] as const, ...all, keyId: ann.keyId };
    expect(await opened.ledger.usage(limited, 3)).toHaveLength(3);
    expect(await opened.ledger.usage(limited, 2)).toBeUndefined();
  });

  it('of all keys is read with a limit and an index, and with SQLite day by day', async () => {
    time = january;
    const opened = await start();
    const payer = await payerOf(opened.ledger, { credit: 10_000n });
    for (const after of [0, 1, 1])
      for (const tag of ['ann', 'bo', 'cy', 'di']) {
        time = january + after * dayMs;
        await settleOne(opened, payer, 1n, { tag });
      }
    const { store } = opened;
    const rowCounts: number[] = [];
    const queries: { readonly node: RootOperationNode; readonly queryId: QueryId }[] = [];
    const plugin: KyselyPlugin = {
      transformQuery: (query) => {
        queries.push(query);
        return query.node;
      },
      transformResult: async ({ result }) => {
        rowCounts.push(result.rows.length);
        return result;
      },
    };
    const watched: Pick<typeof store, 'kind' | 'read'> = {
      kind: store.kind,
      read: (work) => store.read((db) => work(db.withPlugin(plugin))),
    };
    const query: UsageQuery = { by: ['tag'], since: '2026-01-29', until: '2026-02-01' };
    const isSqlite = store.kind === 'sqlite';
    expect(await readUsage(watched, query, 2)).toBeUndefined();
    expect(rowCounts.splice(0)).toEqual(isSqlite ? [0, 3] : [3]);
    expect((await readUsage(watched, query, 4))?.map(({ group, spent }) => [...group, spent])).toEqual([
      ['ann', 3n],
      ['bo', 3n],
      ['cy', 3n],
      ['di', 3n],
    ]);
    expect(rowCounts.splice(0)).toEqual(isSqlite ? [0, 4, 4, 0] : [4]);
    // The command line, which serves no requests, reads all at once.
    expect(await readUsage(watched, query)).toHaveLength(4);
    expect(rowCounts).toEqual([4]);
    if (!isSqlite) return;
    const [first] = queries;
    const plan = await store.read((db) => {
      const { sql: text, parameters } = db.getExecutor().compileQuery(first!.node, first!.queryId);
      return db.executeQuery<{ detail: string }>(
        CompiledQuery.raw(`explain query plan ${text}`, [...parameters]),
      );
    });
    expect(plan.rows[0]?.detail).toContain('USING INDEX gateway_usage_by_day');
  });

  it('that differs from the requests is a fault of the ledger, whichever sum it is', async () => {
    time = january;
    const opened = await start();
    const payer = await payerOf(opened.ledger, { credit: 10_000n });
    await settleOne(opened, payer, 3n, { tag: "o'neill" });
    const faults = async () => (await opened.ledger.audit()).faults;
    expect(await faults()).toEqual([]);
    for (const column of usageSums) {
      await change(opened, `update gateway_usage set ${column} = ${column} + 1`);
      expect(await faults(), column).toHaveLength(1);
      await change(opened, `update gateway_usage set ${column} = ${column} - 1`);
    }
    await change(opened, 'delete from gateway_usage');
    expect(await faults()).toEqual([
      `The usage of key ${payer.keyId}, 2026-01-30, some, one, tag 'o'neill' differs from its requests: it has spent 0, they were charged 3.`,
    ]);
  });

  /** Makes the database that of the version before. */
  const downgrade = async (opened: OpenLedger) => {
    for (const statement of [
      'drop table gateway_usage',
      'drop index gateway_requests_uncounted',
      'alter table gateway_requests drop column tag',
      'alter table gateway_holds drop column tag',
      "delete from gateway_migrations where name in ('003-usage', '009-usage-days')",
    ])
      await change(opened, statement);
  };

  it('is filled from the requests of a database that had none', async () => {
    const at = await url();
    time = january;
    const old = await ledgerOn(at, { now: () => new Date(time) });
    const payer = await payerOf(old.ledger, { credit: 10_000n });
    await settleOne(old, payer, 5n, { tag: 'not known then' });
    await settleOne(old, payer, 6n);
    await settleOne(old, payer, 7n, { effectiveModel: 'two' });
    old.ledger.recordRefusal(reservation(payer, 1n), ending({ status: 402, outcome: 'failed' }));
    const hold = reservation(payer, 40n);
    await old.ledger.reserve(hold);
    // The audit waits for the refusal.
    await old.ledger.audit();
    await downgrade(old);
    const opened = await start(at);
    expect(await report(opened, { by: ['day', 'tag', 'model'] })).toEqual([
      '2026-01-30  one 2/32/6/8/11',
      '2026-01-30  two 1/16/3/4/7',
    ]);
    await opened.ledger.settle(hold.requestId, settlement(1n));
    expect(await report(opened, {})).toEqual(['one 3/48/9/12/12', 'two 1/16/3/4/7']);
    expect((await opened.ledger.audit()).faults).toEqual([]);
    await old.store.close();
  });

  it('has an index by day also in a database that was filled without it', async () => {
    const at = await url();
    time = january;
    const old = await ledgerOn(at, { now: () => new Date(time) });
    const payer = await payerOf(old.ledger, { credit: 10_000n });
    await settleOne(old, payer, 5n);
    await change(old, 'drop index gateway_usage_by_day');
    await change(old, "delete from gateway_migrations where name = '009-usage-days'");
    const opened = await start(at);
    expect(await report(opened, { by: ['day'] })).toEqual(['2026-01-30 1/16/3/4/5']);
    // It fails where there is none.
    await change(opened, 'drop index gateway_usage_by_day');
    await old.store.close();
  });

  it('counts what gateways of the version before still write, once', async () => {
    const at = await url();
    time = january;
    const opened = await start(at);
    const payer = await payerOf(opened.ledger, { credit: 10_000n });
    await settleOne(opened, payer, 5n);
    await settleOne(opened, payer, 6n, { tag: 'ann' });
    opened.ledger.recordRefusal(reservation(payer, 1n), ending({ status: 402, outcome: 'failed' }));
    await opened.ledger.audit();
    // As they write: without a tag and without usage.
    await change(opened, 'update gateway_requests set tag = null');
    await change(opened, 'delete from gateway_usage');
    expect((await opened.ledger.audit()).faults).toEqual([]);
    await Promise.all([start(at), start(at), start(at)]);
    expect(await report(opened, {})).toEqual(['one 2/32/6/8/11']);
    expect((await opened.ledger.audit()).faults).toEqual([]);
    const uncounted = await opened.store.read((db) =>
      db.selectFrom('gateway_requests').select('id').where('tag', 'is', null).execute(),
    );
    expect(uncounted).toEqual([]);
  });
});

describe('the parameters of a report', () => {
  const now = new Date('2026-03-01T00:30:00Z');

  it('are columns, once each', () => {
    expect(parseUsageDimensions('model, day,model')).toEqual(['model', 'day']);
    for (const [value, message] of [
      ['modle', "got 'modle' (did you mean 'model'?)"],
      ['day,', "got ''"],
      ['', 'expected some of day, month, key, account, provider, model, tag'],
      ['day;model', "got 'day;model'"],
    ] as const)
      expect(() => parseUsageDimensions(value)).toThrow(message);
  });

  it.each([
    ['1d', '2026-03-01'],
    ['30d', '2026-01-31'],
    ['3660d', '2016-02-23'],
    ['2026-02-28', '2026-02-28'],
    ['2026-02', '2026-02-01'],
  ])('begin with %s', (value, day) => {
    expect(parseUsageSince(value)(now)).toBe(day);
  });

  it.each([
    ['2026-02', '2026-02-28'],
    ['2028-02', '2028-02-29'],
    ['2026-12', '2026-12-31'],
    ['2026-02-03', '2026-02-03'],
  ])('end with %s', (value, day) => {
    expect(parseUsageUntil(value)).toBe(day);
  });

  it.each(['', '0d', '30', '3661d', '12h', '2026', '2026-13', '2026-02-30', '9999-01', 'yesterday'])(
    'are not %j',
    (value) => {
      expect(() => parseUsageSince(value)).toThrow(`got '${value}'`);
      expect(() => parseUsageUntil(value)).toThrow(`got '${value}'`);
    },
  );

  it('count days across months', () => {
    expect(nextDay('2028-02-28')).toBe('2028-02-29');
    expect(nextDay('2026-12-31')).toBe('2027-01-01');
    expect(daysIn({ since: '2026-02-27', until: '2026-03-01' })).toBe(3);
  });
});

it('amounts are exact to the nanodollar', () => {
  expect([0n, 1n, 1_500_000_000n, 9_007_199_254_740_993n, -20n].map(toUsd)).toEqual([
    '0.000000000',
    '0.000000001',
    '1.500000000',
    '9007199.254740993',
    '-0.000000020',
  ]);
});

describe('a tag', () => {
  it('is the end user that a request names', () => {
    expect(readTag('chat', { user: ' ann ', safety_identifier: 'x' })).toBe('ann');
    expect(readTag('responses', { safety_identifier: 'h1' })).toBe('h1');
    expect(readTag('messages', { user: 'no', metadata: { user_id: 'bo' } })).toBe('bo');
    expect(readTag('messages', { metadata: null })).toBe('');
    expect(readTag('chat', { user: 7 })).toBe('');
    expect(readTag('chat', { user: 'a\u001b[2J\nb' })).toBe('a\uFFFD[2J\uFFFDb');
    expect(readTag('chat', { user: 'x'.repeat(10_000) })).toHaveLength(128);
    expect(readTag('chat', { user: `${'x'.repeat(127)}\u{1f600}` }).isWellFormed()).toBe(true);
  });

  it('is that of the header, where there is one', () => {
    expect(readTag('chat', { user: 'ann' }, ' nightly report ')).toBe('nightly report');
    expect(readTag('messages', { metadata: { user_id: 'bo' } }, ' ')).toBe('bo');
    expect(readTag('chat', {}, Buffer.from('Köln').toString('latin1'))).toBe('Köln');
    expect(readTag('chat', {}, 'x'.repeat(500))).toHaveLength(128);
  });

  it('has rows of its own up to a limit for each key and day; others share one', () => {
    const limiter = new TagLimiter(3);
    const day = new Date('2026-01-01T12:00:00Z');
    const admit = (key: string, tag: string, now = day) => limiter.admit(key, tag, now);
    expect(['a', 'b', 'a', 'c', 'd', '', 'e', 'c'].map((tag) => admit('k1', tag))).toEqual([
      'a',
      'b',
      'a',
      'c',
      otherTag,
      '',
      otherTag,
      'c',
    ]);
    expect(admit('k2', 'd')).toBe('d');
    expect(admit('k1', 'd', new Date('2026-01-02T00:00:00Z'))).toBe('d');
  });

  it('of many users makes about 10,001 rows a key and day', () => {
    const limiter = new TagLimiter();
    const now = new Date(0);
    const tags = new Set<string>();
    for (let user = 0; user < 200_000; user++) tags.add(limiter.admit('k', `user-${user}`, now));
    // Two users whose hashes collide are one in this limit only.
    expect(tags.size).toBeGreaterThanOrEqual(10_001);
    expect(tags.size).toBeLessThan(10_100);
  });
});
