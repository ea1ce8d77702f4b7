import { afterAll, expect, it } from 'vitest';
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
  const payer = await payerOf(opened.ledger, { credit: 1000n });
  const syncs: (string | undefined)[] = [];
  const commit = opened.store.batch.bind(opened.store);
  opened.store.batch = ((work, sync) => {
    syncs.push(sync);
    return commit(work, sync);
  }) satisfies GatewayStore['batch'];
  return { ledger: opened.ledger, payer, syncs };
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

it('syncs a commit of holds and settlements before it is acknowledged', async () => {
  const { ledger, payer, syncs } = await start();
  const held = [reservation(payer, 100n), reservation(payer, 100n)];
  await Promise.all(held.map((one) => ledger.reserve(one)));
  const further = reservation(payer, 100n);
  await Promise.all([
    ledger.reserve(further),
    ...held.map(({ requestId }) => ledger.release(requestId, ending())),
  ]);
  expect(syncs.slice(0, -1).every((sync) => sync === 'later')).toBe(true);
  expect(syncs.at(-1)).toBe('background');
});
