import { afterAll, expect, it } from 'vitest';
import { StoreError } from '../../src/store/index.ts';
import type { GatewayStore } from '../../src/gateway/store/index.ts';
import { freshSqlite } from '../support/databases.ts';
import { ending, ledgerOn, type OpenLedger, payerOf, reservation, settlement } from '../support/ledger.ts';

const open: OpenLedger[] = [];
afterAll(async () => {
  for (const one of open) await one.close();
});

/** A ledger on SQLite, and when each of its commits is synced to the disk. */
async function start() {
  const opened = await ledgerOn(freshSqlite(), { beatMs: 1_000_000 });
  open.push(opened);
  const payer = await payerOf(opened.ledger, { credit: 10_000n });
  const syncs: (string | undefined)[] = [];
  const commit = opened.store.batch.bind(opened.store);
  opened.store.batch = ((work, sync) => {
    syncs.push(sync);
    return commit(work, sync);
  }) satisfies GatewayStore['batch'];
  return { opened, ledger: opened.ledger, payer, syncs };
}

it('syncs a hold after its request is sent, and its settlement before it is acknowledged', async () => {
  const { ledger, payer, syncs } = await start();
  const held = reservation(payer, 100n);
  await ledger.reserve(held);
  await ledger.settle(held.requestId, settlement(30n));
  expect(syncs).toEqual(['later', 'inline']);
});

it('syncs a hold with an idempotency key before its request is sent', async () => {
  const { ledger, payer, syncs } = await start();
  await ledger.reserve(reservation(payer, 100n, { idempotency: { key: 'k', bodyHash: 'b' } }));
  expect(syncs).toEqual(['inline']);
});

/** Syncs of the ledger's store that end when they are told to. */
function slowSyncs({ store }: OpenLedger) {
  const running: PromiseWithResolvers<void>[] = [];
  store.sync = () => {
    const sync = Promise.withResolvers<void>();
    running.push(sync);
    return sync.promise;
  };
  return running;
}

/** Holds that stay open, so that the ledger expects other operations and does not sync in its own thread. */
const openHolds = (payer: Parameters<typeof reservation>[0]) => [
  reservation(payer, 100n),
  reservation(payer, 100n),
];

const later = () => new Promise((resolve) => setTimeout(resolve, 20));

it('commits while an earlier commit is synced: holds do not wait, settlements wait for a sync of their own', async () => {
  const { opened, ledger, payer, syncs } = await start();
  const held = [reservation(payer, 100n), reservation(payer, 100n), reservation(payer, 100n)];
  for (const one of held) await ledger.reserve(one);
  const running = slowSyncs(opened);
  const settled: number[] = [];
  const settle = (index: number) =>
    ledger.settle(held[index]?.requestId ?? '', settlement(10n)).then(() => settled.push(index));
  const settling = [settle(0)];
  await expect.poll(() => running.length).toBe(1);
  await ledger.reserve(reservation(payer, 100n));
  settling.push(settle(1));
  await expect.poll(() => running.length).toBe(2);
  expect(syncs.every((sync) => sync === 'later')).toBe(true);
  await later();
  expect(settled).toEqual([]);
  running[0]?.resolve();
  await settling[0];
  await later();
  expect(settled).toEqual([0]);
  running[1]?.resolve();
  await Promise.all(settling);
  expect(settled).toEqual([0, 1]);
});

it('does not make a hold wait for the settlements of its commit', async () => {
  const { opened, ledger, payer } = await start();
  const held = [reservation(payer, 100n), reservation(payer, 100n)];
  for (const one of [...held, ...openHolds(payer)]) await ledger.reserve(one);
  const running = slowSyncs(opened);
  const releasing = Promise.all(held.map(({ requestId }) => ledger.release(requestId, ending())));
  await ledger.reserve(reservation(payer, 100n));
  expect(running.length).toBe(1);
  running[0]?.resolve();
  await releasing;
});

it('waits for its syncs before it closes', async () => {
  const { opened, ledger, payer } = await start();
  const held = [reservation(payer, 100n), reservation(payer, 100n)];
  for (const one of [...held, ...openHolds(payer)]) await ledger.reserve(one);
  const running = slowSyncs(opened);
  const releasing = Promise.all(held.map(({ requestId }) => ledger.release(requestId, ending())));
  await expect.poll(() => running.length).toBe(1);
  let isClosed = false;
  const closing = ledger.close().then(() => (isClosed = true));
  await later();
  expect(isClosed).toBe(false);
  running[0]?.resolve();
  await Promise.all([releasing, closing]);
});

it('syncs again after a sync of unknown outcome, and rejects the settlements when it stays unknown', async () => {
  const { opened, ledger, payer } = await start();
  const held = Array.from({ length: 4 }, () => reservation(payer, 100n));
  for (const one of [...held, ...openHolds(payer)]) await ledger.reserve(one);
  const [first, second, ...others] = held.map(({ requestId }) => requestId);
  const unsure = () => Promise.reject(new StoreError('storage_unsure', 'the disk is ill'));
  const real = opened.store.sync.bind(opened.store);
  let failures = 1;
  opened.store.sync = () => (failures-- > 0 ? unsure() : real());
  const settle = (ids: readonly (string | undefined)[]) =>
    Promise.allSettled(ids.map((id = '') => ledger.settle(id, settlement(10n))));
  const results = await settle([first, second]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  opened.store.sync = unsure;
  for (const result of await settle(others))
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'storage_unsure' } });
  opened.store.sync = real;
  expect((await ledger.audit()).faults).toEqual([]);
});
