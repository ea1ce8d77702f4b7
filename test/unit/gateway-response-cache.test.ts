import { afterEach, expect, it } from 'vitest';
import { ResponseCache } from '../../src/gateway/cache/response-cache.ts';
import type { CacheBounds } from '../../src/gateway/cache/types.ts';
import { describeStores } from '../support/databases.ts';
import { ledgerOn } from '../support/ledger.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

describeStores('the stored answers of a database', (url) => {
  const open = async (bounds: CacheBounds | undefined) => {
    const books = await ledgerOn(await url());
    undo.push(() => books.close());
    const faults: unknown[] = [];
    const settings = { bounds };
    const cache = new ResponseCache({
      store: books.store,
      bounds: () => settings.bounds,
      onFault: (error) => faults.push(error),
    });
    undo.push(async () => {
      await cache.close();
      expect(faults).toEqual([]);
    });
    const put = async (key: string, body = 'body', ttlSecs = 60) => {
      const answer = { body, provider: 'p', pricingIdentity: 'sha256:0', costNanodollars: 2n ** 60n };
      cache.put({ key, accountId: 'a', model: 'm', ttlSecs }, answer);
      await cache.close();
    };
    const keys = async () => {
      const rows = await books.store.read((db) =>
        db.selectFrom('gateway_cache').select('key').orderBy('key').execute(),
      );
      return rows.map(({ key }) => key);
    };
    /** Makes answers older, as if they had been stored some seconds ago. */
    const age = (key: string, secs: number) =>
      books.store.transaction((tx) =>
        tx
          .updateTable('gateway_cache')
          .set({ stored_at: new Date(Date.now() - secs * 1000).toISOString() })
          .where('key', '=', key)
          .execute(),
      );
    return { cache, settings, put, keys, age };
  };
  const wide = { maxEntries: 1000, maxBytes: 1_000_000 };

  it('are found as they were stored, and are replaced by a newer one', async () => {
    const { cache, put } = await open(wide);
    const body = '{"text":"\\u0000 \\ud800 日本"}';
    await put('one', body);
    expect(await cache.find('one', 60)).toEqual({
      body,
      provider: 'p',
      pricingIdentity: 'sha256:0',
      costNanodollars: 2n ** 60n,
      ageSecs: 0,
    });
    await put('one', 'newer');
    expect(await cache.find('one', 60)).toMatchObject({ body: 'newer' });
    expect(await cache.find('two', 60)).toBeUndefined();
  });

  it('are removed above the number and the size, the oldest first', async () => {
    const { cache, settings, put, keys, age } = await open(wide);
    for (const [index, key] of ['a', 'b', 'c', 'd'].entries()) {
      await put(key, 'x'.repeat(100));
      await age(key, 40 - index);
    }
    settings.bounds = { maxEntries: 3, maxBytes: 1000 };
    await cache.sweep();
    expect(await keys()).toEqual(['b', 'c', 'd']);
    settings.bounds = { maxEntries: 3, maxBytes: 250 };
    await cache.sweep();
    expect(await keys()).toEqual(['c', 'd']);
  });

  it('are bounded while many are stored, to a sixteenth', async () => {
    const { put, keys } = await open({ maxEntries: 32, maxBytes: 1_000_000 });
    for (let n = 0; n < 100; n++) await put(`key ${n}`);
    expect((await keys()).length).toBeLessThanOrEqual(34);
  });

  it('are not stored where one is larger than the bounds or than 4 Mi characters, or nothing is cached', async () => {
    const { settings, put, keys } = await open({ maxEntries: 10, maxBytes: 10 });
    await put('large', 'x'.repeat(11));
    settings.bounds = { maxEntries: 10, maxBytes: 100_000_000 };
    await put('larger', 'x'.repeat(4 * 1024 * 1024 + 1));
    settings.bounds = undefined;
    await put('small');
    expect(await keys()).toEqual([]);
  });

  it('are removed when they expire, and all of them when nothing is cached any more', async () => {
    const { cache, settings, put, keys } = await open(wide);
    await put('short', 'body', -1);
    await put('long');
    expect(await cache.find('short', 60)).toBeUndefined();
    await cache.sweep();
    expect(await keys()).toEqual(['long']);
    settings.bounds = undefined;
    await cache.sweep();
    expect(await keys()).toEqual([]);
  });
});
