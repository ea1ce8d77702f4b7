import { generateKeyPairSync } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { ReceiptChain } from '../../src/agent/receipts/receipt-chain.ts';
import {
  findReceiptFault,
  storedReceipts,
  verifyReceipts,
} from '../../src/agent/receipts/verify-receipts.ts';
import { type ReceiptBody, workReceipt } from '../../src/agent/shapes/receipt.ts';
import { computeKeyId, rawPublicKey } from '../../src/signing/ed25519.ts';
import { Store, type Tables } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';

// Where the PostgreSQL server has to be started first.
function newKey() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { privateKey, publicKey, keyId: computeKeyId(rawPublicKey(publicKey)) };
}
const key = newKey();

const stores: Store[] = [];
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
});
async function chain(url: string, endpointId = 'e0') {
  const store = await Store.open({ url, endpointId });
  stores.push(store);
  const receipts = new ReceiptChain({ store, key });
  const add = (id: string, more: Partial<ReceiptBody> = {}) =>
    store.transaction((tx) => receipts.add(tx, { ...body(id), ...more }));
  const verify = () => verifyReceipts(storedReceipts(store), key.publicKey);
  /** Changes a receipt as an attacker with write access to the database could. */
  const tamper = (seq: number, columns: Partial<Tables['receipts']>) =>
    store.transaction((tx) => tx.updateTable('receipts').set(columns).where('seq', '=', seq).execute());
  const row = (seq: number) =>
    store.read((db) =>
      db.selectFrom('receipts').selectAll().where('seq', '=', seq).executeTakeFirstOrThrow(),
    );
  const remove = (seq: number) =>
    store.transaction((tx) => tx.deleteFrom('receipts').where('seq', '=', seq).execute());
  return { store, receipts, add, verify, tamper, row, remove };
}
const body = (id: string): ReceiptBody => ({
  id,
  kind: 'task',
  outcome: 'completed',
  started_at: '2030-01-01T00:00:00.000Z',
  ended_at: '2030-01-01T00:00:01.000Z',
});

describeDatabases('the chain of receipts', (url) => {
  test('holds every receipt in order, signed, also when many end at once', async () => {
    const { add, verify, receipts } = await chain(await url());
    expect(await verify()).toEqual({ ok: true, receipts: 0 });
    await Promise.all(Array.from({ length: 30 }, (_, index) => add(`t${index + 1}`)));
    expect(await verify()).toEqual({ ok: true, receipts: 30 });
    const receipt = workReceipt.strict().parse(await receipts.get('t7'));
    expect(receipt).toMatchObject({ contract: 1, id: 't7', endpoint_id: 'e0' });
    expect(findReceiptFault(receipt, key.publicKey)).toBeUndefined();
    await expect(receipts.get('t99')).rejects.toMatchObject({ kind: 'not_found', code: 'no_receipt' });
  });

  test('detects changed, removed, moved, inserted, missing and wrongly signed receipts', async () => {
    const { add, verify, tamper, row, remove, store } = await chain(await url());
    for (let n = 1; n <= 6; n += 1) await add(`t${n}`);
    const third = await row(3);
    const fourth = await row(4);

    const changed = { ...(JSON.parse(third.receipt) as object), outcome: 'failed' };
    await tamper(3, { receipt: JSON.stringify(changed) });
    expect(await verify()).toMatchObject({ ok: false, receipts: 2, first_bad: 3, reason: /digest/ });
    await tamper(3, { receipt: JSON.stringify({ ...(JSON.parse(third.receipt) as object), more: 1 }) });
    expect(await verify()).toMatchObject({ ok: false, first_bad: 3 });
    await tamper(3, { receipt: 'none' });
    expect(await verify()).toMatchObject({ ok: false, first_bad: 3 });
    await tamper(3, third);
    expect((await verify()).ok).toBe(true);

    await tamper(3, { kind: 'run' });
    expect(await verify()).toMatchObject({ ok: false, first_bad: 3, reason: /kind/ });
    await tamper(3, third);

    // Two that change places, with their columns.
    await tamper(3, { ...third, id: 'x', seq: 90 });
    await tamper(4, { ...fourth, seq: 3 });
    await tamper(90, { ...third, seq: 4 });
    expect(await verify()).toMatchObject({ ok: false, receipts: 2, first_bad: 3 });
    await tamper(3, { ...fourth, id: 'y', seq: 90 });
    await tamper(4, { ...third, seq: 3 });
    await tamper(90, { ...fourth, seq: 4 });
    expect((await verify()).ok).toBe(true);

    await remove(3);
    expect(await verify()).toMatchObject({ ok: false, first_bad: 3, reason: /missing/ });
    await store.transaction((tx) => tx.insertInto('receipts').values(third).execute());
    await remove(6);
    expect(await verify()).toMatchObject({ ok: false, receipts: 5, first_bad: 6, reason: /missing/ });
    // And it stays found when the host goes on.
    await add('t7');
    expect(await verify()).toMatchObject({ ok: false, receipts: 5, first_bad: 6 });

    const other = newKey();
    expect(await verifyReceipts(storedReceipts(store), other.publicKey)).toMatchObject({
      ok: false,
      first_bad: 1,
      reason: expect.stringContaining(other.keyId),
    });
  });

  test('refuses a receipt that was signed again with another key, even with the right digest', async () => {
    const { add, verify, tamper, store } = await chain(await url());
    await add('t1');
    const forged = new ReceiptChain({
      store,
      key: { ...newKey(), keyId: key.keyId },
    });
    await store.transaction((tx) => forged.add(tx, body('t2')));
    expect(await verify()).toMatchObject({ first_bad: 2, reason: /signature is invalid/ });
    await tamper(2, { prev_digest: 'sha256:0' });
    expect((await verify()).ok).toBe(false);
  });

  test('refuses a genuine receipt with the same seq from another copy of the chain', async () => {
    const one = await chain(await url());
    const other = await chain(await url());
    for (const { add } of [one, other]) await add('t1');
    await one.add('t2');
    await other.add('t2', { outcome: 'failed' });
    for (const { add } of [one, other]) await add('t3');
    await one.tamper(2, await other.row(2));
    expect(await one.verify()).toMatchObject({ ok: false, receipts: 2, first_bad: 3, reason: /prev_digest/ });
  });

  test('hosts that share a database have a chain each', async () => {
    const where = await url();
    const one = await chain(where);
    const two = await chain(where, 'e1');
    await Promise.all([one.add('t1'), two.add('t2'), one.add('t3'), two.add('t4'), two.add('t5')]);
    expect([await one.verify(), await two.verify()]).toEqual([
      { ok: true, receipts: 2 },
      { ok: true, receipts: 3 },
    ]);
  });

  test('a transaction that fails leaves no receipt and no gap', async () => {
    const { add, verify, store, receipts } = await chain(await url());
    await add('t1');
    const failing = store.transaction(async (tx) => {
      await receipts.add(tx, body('t2'));
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await add('t3');
    expect(await verify()).toEqual({ ok: true, receipts: 2 });
  });

  test('verifies unusual texts and more receipts than one batch', async () => {
    const { add, verify, receipts, store } = await chain(await url());
    await add('t1', { summary: 'half \ud800, \u0000, é, 😀', title: '\u2028' });
    expect((await receipts.get('t1')).summary).toContain('😀');
    await store.transaction(async (tx) => {
      for (let n = 2; n <= 520; n += 1) await receipts.add(tx, body(`t${n}`));
    });
    expect(await verify()).toEqual({ ok: true, receipts: 520 });
  });
});

describe('a receipt by itself', () => {
  test.each([
    ['a text', 'x'],
    ['a list', []],
    ['nothing in it', {}],
    ['an odd signature', { digest: 'd', signature: 1 }],
    ['a wrong digest', { digest: 'd', signature: { value: 'v' } }],
  ])('%s is refused without an exception', (_, value) => {
    expect(findReceiptFault(value, key.publicKey)).toEqual(expect.any(String));
  });
});
