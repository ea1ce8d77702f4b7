import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Connection, StoreError } from '../../src/store/index.ts';
import { describeStores } from '../support/databases.ts';
import { ledgerOn, type OpenLedger, payerOf, reservation, settlement } from '../support/ledger.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';

const unsure = () => new StoreError('storage_unsure', 'the connection was lost while it was saving');
const failed = () => new StoreError('storage_failed', 'the database is away');

/** Outcomes of the next commits: saved but unsure, lost and unsure, or refused. */
type Fate = 'saved' | 'lost' | 'refused';

function withFates({ store }: OpenLedger) {
  const fates: Fate[] = [];
  const real = store.batch.bind(store);
  store.batch = async <T>(work: (connection: Connection) => Promise<T>): Promise<T> => {
    const fate = fates.shift();
    if (fate === 'refused') throw failed();
    if (fate === 'lost') throw unsure();
    const value = await real(work);
    if (fate === 'saved') throw unsure();
    return value;
  };
  return fates;
}

const until = async (holds: () => Promise<boolean>) => {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
};

describeStores('a ledger whose database fails', (url) => {
  const open: OpenLedger[] = [];
  afterAll(async () => {
    for (const one of open) await one.close();
  });
  /** @param beatMs long ones where nothing else may take a fate */
  const start = async (beatMs = 1_000_000) => {
    const opened = await ledgerOn(await url(), { beatMs });
    open.push(opened);
    const payer = await payerOf(opened.ledger, { credit: 1000n });
    const free = async () => (await opened.ledger.balance(payer.accountId)).remaining;
    return { ...opened, payer, free, fates: withFates(opened) };
  };

  it.each([['saved'], ['lost'], ['saved', 'lost', 'saved']] as Fate[][])(
    'finds out what became of a commit that was %s %s %s, and does it once',
    async (...given) => {
      const { ledger, payer, fates, free } = await start();
      const requested = reservation(payer, 100n, { idempotency: { key: 'k', bodyHash: 'b' } });
      fates.push(...given);
      expect(await ledger.reserve(requested)).toEqual({ outcome: 'reserved' });
      expect(await free()).toBe(900n);
      fates.push(...given);
      expect(await ledger.settle(requested.requestId, settlement(30n))).toEqual({
        charged: 30n,
        overrun: 0n,
      });
      expect(await free()).toBe(970n);
      expect((await ledger.audit()).faults).toEqual([]);
    },
  );

  it('frees the hold of a request whose reservation was reported as failed', async () => {
    const { ledger, payer, fates, free } = await start(20);
    const idempotency = { key: 'k', bodyHash: 'b' };
    fates.push('saved', 'lost', 'lost', 'lost', 'refused', 'lost');
    const requested = reservation(payer, 100n, { idempotency });
    // A heartbeat may fail in its own way; the test requires that it fails and that nothing stays held.
    await ledger.reserve(requested).catch((error: unknown) => expect(error).toBeInstanceOf(StoreError));
    const row = await ledger.audit();
    if (row.openHolds === 1 && (await free()) === 900n) await until(async () => (await free()) === 1000n);
    expect(await ledger.findClaim(payer.accountId, 'k', 'b')).toBeUndefined();
    expect((await ledger.audit()).faults).toEqual([]);
  });

  it('rejects every operation of a failed commit, applies none, and retries settlements later', async () => {
    const { ledger, store, payer, fates, free } = await start(20);
    const [one, two] = [reservation(payer, 100n), reservation(payer, 200n)];
    for (const requested of [one, two]) await ledger.reserve(requested);
    fates.push(...Array<Fate>(12).fill('refused'));
    const results = await Promise.allSettled([
      ledger.settle(one.requestId, settlement(10n)),
      ledger.settle(two.requestId, settlement(20n)),
      ledger.reserve(reservation(payer, 300n)),
    ]);
    for (const result of results)
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'storage_failed' } });
    await until(async () => (await free()) === 970n);
    expect((await ledger.audit()).faults).toEqual([]);
    const rows = await store.read((db) => db.selectFrom('gateway_requests').select('charged').execute());
    expect(new Set(rows.map(({ charged }) => charged))).toEqual(new Set([10n, 20n]));
  });

  it('retries a settlement after an internal error', async () => {
    const { ledger, payer, store, free } = await start(20);
    const requested = reservation(payer, 100n);
    await ledger.reserve(requested);
    const real = store.batch.bind(store);
    store.batch = () => Promise.reject(new TypeError('of undefined'));
    await expect(ledger.settle(requested.requestId, settlement(30n))).rejects.toThrow(/of undefined/);
    store.batch = real;
    await until(async () => (await free()) === 970n);
    expect((await ledger.audit()).faults).toEqual([]);
  });

  it('retries unsettled operations before it closes', async () => {
    const { ledger, payer, fates, free } = await start();
    const requested = reservation(payer, 100n);
    await ledger.reserve(requested);
    fates.push('refused');
    await expect(ledger.settle(requested.requestId, settlement(10n))).rejects.toThrow(/away/);
    expect(await free()).toBe(900n);
    await ledger.close();
    expect(await free()).toBe(990n);
  });
});

const reason = noDisks();
describe.skipIf(reason !== undefined)(
  `a ledger whose disk is full${reason ? `: skipped, ${reason}` : ''}`,
  () => {
    it('refuses new requests, and settles what was reserved when there is room again', async () => {
      const disk = smallDisk('8m');
      const folder = join(disk.folder, 'data');
      mkdirSync(folder);
      const opened = await ledgerOn(`sqlite:${join(folder, 'gateway.db')}`, { beatMs: 50 });
      const { ledger } = opened;
      const payer = await payerOf(ledger, { credit: 100_000n });
      const free = async () => (await ledger.balance(payer.accountId)).remaining;
      try {
        const requested = Array.from({ length: 40 }, () => reservation(payer, 10n));
        for (const one of requested) await ledger.reserve(one);
        disk.fill();
        const held = [...requested];
        let refused = 0;
        for (let count = 0; refused === 0; count++) {
          expect(count).toBeLessThan(100_000);
          const more = Array.from({ length: 50 }, () => reservation(payer, 10n));
          const results = await Promise.allSettled(more.map((one) => ledger.reserve(one)));
          for (const [index, result] of results.entries()) {
            const one = more[index];
            if (result.status === 'fulfilled' && one) held.push(one);
            else refused += 1;
            if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'storage_full' });
          }
        }
        expect(await free()).toBe(100_000n - 10n * BigInt(held.length));
        const settled = await Promise.allSettled(
          requested.map(({ requestId }) => ledger.settle(requestId, settlement(4n))),
        );
        for (const one of settled)
          if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'storage_full' });
        disk.makeRoom();
        const expected = 100_000n - 4n * 40n - 10n * BigInt(held.length - 40);
        await until(async () => (await free()) === expected);
        expect((await ledger.audit()).faults).toEqual([]);
      } finally {
        await opened.close();
        disk.remove();
      }
    });
  },
);
