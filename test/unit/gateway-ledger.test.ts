import { type KyselyPlugin, sql } from 'kysely';
import { afterAll, describe, expect, it } from 'vitest';
import { hashSecret } from '../../src/signing/secret.ts';
import type { Ledger } from '../../src/gateway/ledger/types.ts';
import { describeStores } from '../support/databases.ts';
import {
  ending,
  ledgerOn,
  newRequest,
  type OpenLedger,
  payerOf,
  reservation,
  settlement,
} from '../support/ledger.ts';

const day = 24 * 60 * 60 * 1000;
const answer = { status: 200, headers: { 'x-svc-request-id': 'r' }, body: '{"id":"1"}' };

describeStores('the ledger', (url) => {
  const open: OpenLedger[] = [];
  afterAll(async () => {
    for (const one of open) await one.close();
  });
  let time = Date.UTC(2026, 0, 1);
  const start = async (at?: string, options: Parameters<typeof ledgerOn>[1] = {}) => {
    const made = await ledgerOn(at ?? (await url()), { now: () => new Date(time), ...options });
    open.push(made);
    return made;
  };
  const expectSound = async (ledger: Ledger) => {
    const { ok, faults } = await ledger.audit();
    expect(faults).toEqual([]);
    expect(ok).toBe(true);
  };
  const requestRow = async ({ store }: OpenLedger, id: string) =>
    await store.read((db) =>
      db.selectFrom('gateway_requests').selectAll().where('id', '=', id).executeTakeFirst(),
    );

  describe('a request', () => {
    it('holds an amount, is charged its cost, and frees the rest', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n, cap: 900n });
      const requested = reservation(payer, 400n);
      expect(await ledger.reserve(requested)).toEqual({ outcome: 'reserved' });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(600n);
      expect((await ledger.keys())[0]).toMatchObject({ spent: 0n, held: 400n });
      expect(await ledger.settle(requested.requestId, settlement(150n))).toEqual({
        charged: 150n,
        overrun: 0n,
      });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(850n);
      expect((await ledger.keys())[0]).toMatchObject({ spent: 150n, held: 0n });
      await expectSound(ledger);
    });

    it('is settled once; later calls return the first result', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 400n);
      await ledger.reserve(requested);
      const both = [settlement(150n), settlement(390n)].map((one) => ledger.settle(requested.requestId, one));
      expect(await Promise.all(both)).toEqual([
        { charged: 150n, overrun: 0n },
        { charged: 150n, overrun: 0n },
      ]);
      await ledger.release(requested.requestId, ending());
      expect(await ledger.reserve(requested)).toEqual({ outcome: 'reserved' });
      expect(await ledger.settle(requested.requestId, settlement(1n))).toEqual({
        charged: 150n,
        overrun: 0n,
      });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(850n);
      await expectSound(ledger);
    });

    it('that is reserved twice has one hold', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 600n);
      const other = { ...requested, amount: 300n };
      const twice = await Promise.all([ledger.reserve(requested), ledger.reserve(other)]);
      expect(twice).toEqual([{ outcome: 'reserved' }, { outcome: 'reserved' }]);
      expect(await ledger.reserve(other)).toEqual({ outcome: 'reserved' });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(400n);
      expect(await ledger.settle(requested.requestId, settlement(500n))).toEqual({
        charged: 500n,
        overrun: 0n,
      });
      expect((await ledger.keys())[0]).toMatchObject({ spent: 500n, held: 0n });
      await expectSound(ledger);
    });

    it('that costs more than its hold is charged up to the hold; the operator pays the overrun', async () => {
      const opened = await start();
      const { ledger } = opened;
      const payer = await payerOf(ledger, { credit: 1000n, cap: 400n });
      const requested = reservation(payer, 400n);
      await ledger.reserve(requested);
      expect(await ledger.settle(requested.requestId, settlement(450n))).toEqual({
        charged: 400n,
        overrun: 50n,
      });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(600n);
      const entries = await opened.store.read((db) =>
        db
          .selectFrom('gateway_entries')
          .select(['account_id', 'amount'])
          .where('reference', '=', requested.requestId)
          .orderBy('amount')
          .execute(),
      );
      expect(entries).toEqual([
        { account_id: payer.accountId, amount: -400n },
        { account_id: 'house', amount: -50n },
        { account_id: 'revenue', amount: 450n },
      ]);
      await expectSound(ledger);
    });

    it('that is released costs nothing and is recorded', async () => {
      const opened = await start();
      const { ledger } = opened;
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 400n);
      await ledger.reserve(requested);
      await ledger.release(requested.requestId, ending({ status: 502, outcome: 'failed' }));
      await ledger.release(requested.requestId, ending());
      expect(await ledger.settle(requested.requestId, settlement(9n))).toEqual({ charged: 0n, overrun: 0n });
      expect((await ledger.balance(payer.accountId)).remaining).toBe(1000n);
      expect(await requestRow(opened, requested.requestId)).toMatchObject({
        ended: 'released',
        status: 502n,
        cost: 0n,
        tokens_fresh: null,
      });
      await expectSound(ledger);
    });

    it('has all of its facts in its row', async () => {
      const opened = await start();
      const payer = await payerOf(opened.ledger, { credit: 1000n });
      const names = { requestedModel: 'a\0b\uD800', tag: 'ann ✓' };
      const requested = reservation(payer, 400n, { ...names, stream: true });
      await opened.ledger.reserve(requested);
      await opened.ledger.settle(
        requested.requestId,
        settlement(151n, { effectiveModel: 'two', provider: 'other', reason: 'provider_failover' }),
      );
      expect(await requestRow(opened, requested.requestId)).toEqual({
        id: requested.requestId,
        account_id: payer.accountId,
        key_id: payer.keyId,
        requested_model: 'a\uFFFDb\uFFFD',
        effective_model: 'two',
        provider: 'other',
        wire: 'chat',
        stream: 1n,
        byok: 0n,
        amount: 400n,
        estimate: 100n,
        idempotency_key: null,
        replica_id: opened.store.replicaId,
        tag: 'ann ✓',
        reserved_at: new Date(time).toISOString(),
        ended: 'settled',
        ended_at: new Date(time).toISOString(),
        cost: 151n,
        charged: 151n,
        overrun: 0n,
        cost_fresh: 76n,
        cost_cache_write: 0n,
        cost_cache_read: 0n,
        cost_output: 75n,
        cost_tools: 0n,
        cost_hedge: 0n,
        details: null,
        tokens_fresh: 10n,
        tokens_cache_write: 1n,
        tokens_cache_write_1h: 2n,
        tokens_cache_read: 3n,
        tokens_output: 4n,
        tokens_reasoning: null,
        endpoint: 'credits',
        status: 200n,
        outcome: 'completed',
        reason: 'provider_failover',
        total_ms: 13n,
        pricing_identity: 'sha256:00',
        first_byte_ms: 3n,
      });
    });

    it('that was refused is recorded in the background, and before the ledger closes', async () => {
      const at = await url();
      const first = await start(at);
      const payer = await payerOf(first.ledger, { credit: 10n });
      const requested = reservation(payer, 400n);
      expect(await first.ledger.reserve(requested)).toEqual({
        outcome: 'insufficient_allowance',
        balance: 10n,
      });
      first.ledger.recordRefusal(requested, ending({ status: 402, outcome: 'failed' }));
      first.ledger.recordRefusal(requested, ending({ status: 402, outcome: 'failed' }));
      await first.ledger.close();
      const second = await start(at);
      const row = await requestRow(second, requested.requestId);
      expect(row).toMatchObject({ ended: 'refused', status: 402n, cost: 0n });
      expect(first.faults).toEqual([]);
      await expectSound(second.ledger);
    });

    it('without a reservation cannot be settled, and does not affect others in its commit', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 400n);
      await ledger.reserve(requested);
      const [wrong, right] = await Promise.allSettled([
        ledger.settle(newRequest(), settlement(1n)),
        ledger.settle(requested.requestId, settlement(2n)),
      ]);
      expect(wrong).toMatchObject({ status: 'rejected', reason: { code: 'unknown_request' } });
      expect(right).toEqual({ status: 'fulfilled', value: { charged: 2n, overrun: 0n } });
    });

    it('whose cost components do not add up is refused before it reaches the database', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 400n);
      await ledger.reserve(requested);
      const components = { fresh: 1n, cache_write: 0n, cache_read: 0n, output: 0n };
      const wrong = settlement(2n, { cost: { total: 2n, components } });
      await expect(ledger.settle(requested.requestId, wrong)).rejects.toThrow(/must add up to 2/);
      await expect(ledger.reserve(reservation(payer, -1n))).rejects.toThrow(/amount must be from 0/);
    });

    it('with an amount above 2^53 is exact', async () => {
      const { ledger } = await start();
      const credit = 9_007_199_254_740_993n;
      const payer = await payerOf(ledger, { credit });
      await ledger.credit(payer.accountId, credit);
      const requested = reservation(payer, 10n ** 15n);
      await ledger.reserve(requested);
      await ledger.settle(requested.requestId, settlement(999_999_999_999_999n));
      expect((await ledger.balance(payer.accountId)).remaining).toBe(2n * credit - 999_999_999_999_999n);
      await expectSound(ledger);
    });
  });

  describe('refuses', () => {
    it('requests that the balance cannot cover, in order of arrival', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const outcomes = await Promise.all(
        [600n, 500n, 400n, 1n].map((amount) => ledger.reserve(reservation(payer, amount))),
      );
      expect(outcomes).toEqual([
        { outcome: 'reserved' },
        { outcome: 'insufficient_allowance', balance: 400n },
        { outcome: 'reserved' },
        { outcome: 'insufficient_allowance', balance: 0n },
      ]);
      await expectSound(ledger);
    });

    it('requests above the cap of the key, counting held and spent amounts', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n, cap: 500n });
      const first = reservation(payer, 300n);
      await ledger.reserve(first);
      const capped = { outcome: 'key_spend_cap_exceeded', remaining: 200n };
      expect(await ledger.reserve(reservation(payer, 201n))).toEqual(capped);
      await ledger.settle(first.requestId, settlement(300n));
      expect(await ledger.reserve(reservation(payer, 201n))).toEqual(capped);
      expect(await ledger.reserve(reservation(payer, 200n))).toEqual({ outcome: 'reserved' });
    });

    it('keys that are revoked, expired, unknown, or of another account', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const other = await payerOf(ledger, { credit: 1000n });
      const expiresAt = new Date(time + 1000).toISOString();
      const { row: brief } = await ledger.createKey({ account: payer.accountId, expiresAt });
      const { row: gone } = await ledger.createKey({ account: payer.accountId });
      const keep = reservation({ ...payer, keyId: gone.id }, 5n);
      await ledger.reserve(keep);
      const { revokedAt } = await ledger.revokeKey(gone.id);
      expect((await ledger.revokeKey(gone.id)).revokedAt).toBe(revokedAt);
      expect((await ledger.reserve(reservation({ ...payer, keyId: brief.id }, 1n))).outcome).toBe('reserved');
      time += 1000;
      for (const keyId of [brief.id, gone.id, 'k_0000000000000000', other.keyId])
        expect(await ledger.reserve(reservation({ ...payer, keyId }, 1n))).toEqual({
          outcome: 'key_invalid',
        });
      // Requests that were dispatched before are charged.
      expect(await ledger.settle(keep.requestId, settlement(5n))).toEqual({ charged: 5n, overrun: 0n });
      await expectSound(ledger);
    });

    it('no request that is free of charge', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { cap: 0n });
      const requested = reservation(payer, 0n, { byok: true });
      expect(await ledger.reserve(requested)).toEqual({ outcome: 'reserved' });
      expect(await ledger.settle(requested.requestId, settlement(0n))).toEqual({ charged: 0n, overrun: 0n });
      await expectSound(ledger);
    });
  });

  describe('accounts and keys', () => {
    it('spend the included allowance first', async () => {
      const { ledger } = await start();
      const { accountId, keyId } = await payerOf(ledger, { credit: 100n, included: 50n });
      const spend = async (cost: bigint) => {
        const requested = reservation({ accountId, keyId }, cost);
        await ledger.reserve(requested);
        const held = await ledger.balance(accountId);
        await ledger.settle(requested.requestId, settlement(cost));
        expect(await ledger.balance(accountId)).toEqual(held);
        return held;
      };
      const included = 50n;
      expect(await spend(30n)).toEqual({
        remaining: 120n,
        included,
        allowanceRemaining: 20n,
        creditsRemaining: 100n,
      });
      expect(await spend(30n)).toEqual({
        remaining: 90n,
        included,
        allowanceRemaining: 0n,
        creditsRemaining: 90n,
      });
    });

    it('can be corrected down to the free balance, not below', async () => {
      const { ledger } = await start();
      const { id } = await ledger.createAccount('acme', { credit: 100n, included: 50n });
      await ledger.credit('acme', 25n, 'thanks');
      const { row } = await ledger.createKey({ account: 'acme' });
      await ledger.reserve(reservation({ accountId: id, keyId: row.id }, 75n));
      await expect(ledger.credit(id, -101n)).rejects.toThrow(/has 100 nanodollars free; 101 cannot be taken/);
      const { balance } = await ledger.credit(id, -100n);
      expect(balance.remaining).toBe(0n);
      await expect(ledger.credit(id, 0n)).rejects.toThrow(/not 0/);
      await expectSound(ledger);
    });

    it('have unique names, and are found by them', async () => {
      const { ledger } = await start();
      await ledger.createAccount('acme', {});
      await expect(ledger.createAccount(' acme', {})).rejects.toMatchObject({ code: 'account_exists' });
      for (const name of ['  ', 'a\u001b[2Jb', 'a\nb'])
        await expect(ledger.createAccount(name, {})).rejects.toMatchObject({ code: 'invalid' });
      await expect(ledger.credit('nobody', 1n)).rejects.toMatchObject({ code: 'unknown_account' });
      await expect(ledger.credit('revenue', 1n)).rejects.toMatchObject({ code: 'unknown_account' });
      await expect(ledger.revokeKey('k_1')).rejects.toMatchObject({ code: 'unknown_key' });
      await expect(ledger.createKey({ account: 'acme', expiresAt: 'soon' })).rejects.toThrow(/"soon"/);
      expect((await ledger.accounts()).map(({ name }) => name)).toEqual(['acme']);
    });

    it('return a secret once and store its hash', async () => {
      const opened = await start();
      const { ledger } = opened;
      await ledger.createAccount('acme', {});
      const { row, secret } = await ledger.createKey({
        account: 'acme',
        label: 'ci',
        models: ['one', 'two'],
      });
      expect(secret).toMatch(/^lathe_gateway_[\w-]{43}$/);
      expect(row).toMatchObject({
        label: 'ci',
        models: ['one', 'two'],
        last4: secret.slice(-4),
        cap: undefined,
      });
      expect(await ledger.findKey(hashSecret(secret))).toEqual(row);
      expect(await ledger.findKey(hashSecret('x'))).toBeUndefined();
      const rows = await opened.store.read((db) => db.selectFrom('gateway_keys').selectAll().execute());
      expect(Object.values(rows[0] ?? {}).join(' ')).not.toContain(secret.slice(14));
    });
  });

  describe('an idempotency key', () => {
    const claim = { key: 'again', bodyHash: 'b1' };

    it('is claimed with the reservation, by one of two concurrent requests', async () => {
      const at = await url();
      const [one, two] = [await start(at), await start(at)];
      const payer = await payerOf(one.ledger, { credit: 1000n });
      const found = await Promise.all(
        [one, two, one, two].map(({ ledger }) =>
          ledger.reserve(reservation(payer, 10n, { idempotency: claim })),
        ),
      );
      expect(found.filter(({ outcome }) => outcome === 'reserved')).toHaveLength(1);
      const others = found.filter(({ outcome }) => outcome !== 'reserved');
      const waits = { outcome: 'idempotency', claim: { state: 'in_progress' } };
      expect(others).toEqual([waits, waits, waits]);
      expect(await two.ledger.findClaim(payer.accountId, 'again', 'b1')).toEqual({ state: 'in_progress' });
      expect(await two.ledger.findClaim(payer.accountId, 'again', 'b2')).toEqual({ state: 'conflict' });
      expect(await two.ledger.findClaim('a_other', 'again', 'b1')).toBeUndefined();
      expect((await two.ledger.balance(payer.accountId)).remaining).toBe(990n);
      await expectSound(two.ledger);
    });

    it('returns the stored answer for a day', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 1000n });
      const requested = reservation(payer, 10n, { idempotency: claim });
      await ledger.reserve(requested);
      await ledger.settle(requested.requestId, settlement(5n, { answer }));
      const done = { state: 'done', answer };
      time += day - 1;
      expect(await ledger.findClaim(payer.accountId, 'again', 'b1')).toEqual(done);
      const again = () => ledger.reserve(reservation(payer, 10n, { idempotency: claim }));
      expect(await again()).toEqual({ outcome: 'idempotency', claim: done });
      time += 1;
      expect(await ledger.findClaim(payer.accountId, 'again', 'b1')).toBeUndefined();
      expect(await again()).toEqual({ outcome: 'reserved' });
      expect(await ledger.findClaim(payer.accountId, 'again', 'b1')).toEqual({ state: 'in_progress' });
    });

    it('is not claimed by a refused request', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 10n });
      await ledger.reserve(reservation(payer, 11n, { idempotency: claim }));
      expect(await ledger.findClaim(payer.accountId, 'again', 'b1')).toBeUndefined();
    });

    it('is freed when nothing was charged and no answer stored, and is gone when something was charged', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 100n });
      const [one, two, three] = ['1', '2', '3'].map((key) =>
        reservation(payer, 10n, { idempotency: { key, bodyHash: 'b' } }),
      );
      if (!one || !two || !three) throw new Error('three');
      for (const requested of [one, two, three]) await ledger.reserve(requested);
      await ledger.release(one.requestId, ending());
      await ledger.settle(two.requestId, settlement(1n));
      const long = { ...answer, body: 'x'.repeat(4 * 1024 * 1024 + 1) };
      await ledger.settle(three.requestId, settlement(1n, { answer: long }));
      const state = async (key: string) => await ledger.findClaim(payer.accountId, key, 'b');
      expect(await state('1')).toBeUndefined();
      expect(await state('2')).toEqual({ state: 'gone', requestId: two.requestId });
      expect(await state('3')).toEqual({ state: 'gone', requestId: three.requestId });
      await expectSound(ledger);
    });

    it('stores an answer of 4 MiB', async () => {
      const { ledger } = await start();
      const payer = await payerOf(ledger, { credit: 100n });
      const requested = reservation(payer, 10n, { idempotency: claim });
      await ledger.reserve(requested);
      const long = { ...answer, body: 'ä'.repeat(4 * 1024 * 1024) };
      await ledger.settle(requested.requestId, settlement(1n, { answer: long }));
      const found = await ledger.findClaim(payer.accountId, 'again', 'b1');
      expect(found?.state === 'done' && found.answer.body === long.body).toBe(true);
    });
  });

  describe('a gateway that died', () => {
    const die = async ({ store }: OpenLedger) =>
      await store.transaction((tx) =>
        tx
          .updateTable('gateway_replicas')
          .set({ beat_at: sql`beat_at - 31000` })
          .where('id', '=', store.replicaId)
          .execute(),
      );

    it('has its holds settled by estimate, once, and not while it is alive', async () => {
      const at = await url();
      const [dead, alive, other] = [await start(at), await start(at), await start(at)];
      const payer = await payerOf(dead.ledger, { credit: 1000n });
      const claim = { key: 'k', bodyHash: 'b' };
      const requested = [
        reservation(payer, 100n, { idempotency: claim }),
        reservation(payer, 10n, { estimate: 99n }),
      ];
      for (const one of requested) await dead.ledger.reserve(one);
      expect(await alive.ledger.recoverOrphanedHolds()).toEqual({ settled: 0 });
      await die(dead);
      const both = await Promise.all([
        alive.ledger.recoverOrphanedHolds(),
        other.ledger.recoverOrphanedHolds(),
      ]);
      expect(both.map(({ settled }) => settled).reduce((a, b) => a + b)).toBe(2);
      // 25 by estimate, never more than the hold.
      expect((await alive.ledger.balance(payer.accountId)).remaining).toBe(965n);
      const row = await requestRow(alive, requested[0]?.requestId ?? '');
      expect(row).toMatchObject({ ended: 'crash', charged: 25n, cost_fresh: 25n, status: null });
      expect(await alive.ledger.findClaim(payer.accountId, 'k', 'b')).toMatchObject({ state: 'gone' });
      // It was only slow: its settlement comes too late and returns the first result.
      const late = await dead.ledger.settle(requested[0]?.requestId ?? '', settlement(77n));
      expect(late).toEqual({ charged: 25n, overrun: 0n });
      await expectSound(alive.ledger);
    });

    it('counts as alive again after its next operation', async () => {
      const at = await url();
      const [slow, other] = [await start(at, { beatMs: 1 }), await start(at)];
      const payer = await payerOf(slow.ledger, { credit: 1000n });
      await die(slow);
      // Longer than a heartbeat counts as current.
      await new Promise((resolve) => setTimeout(resolve, 10));
      await slow.ledger.reserve(reservation(payer, 100n));
      expect(await other.ledger.recoverOrphanedHolds()).toEqual({ settled: 0 });
    });

    it('is not confused with one that starts during the check', async () => {
      const at = await url();
      const first = await start(at);
      const payer = await payerOf(first.ledger, { credit: 1000n });
      const begin = async () => {
        if (opened.length > 1) return;
        opened.push(await start(at));
        await opened[1]?.ledger.reserve(reservation(payer, 100n));
      };
      const opened = [first];
      const read = first.store.read.bind(first.store);
      // Another gateway may write after each statement.
      const between: KyselyPlugin = {
        transformQuery: ({ node }) => node,
        transformResult: async ({ result }) => {
          await begin();
          return result;
        },
      };
      first.store.read = (work) => read((db) => work(db.withPlugin(between)));
      expect(await first.ledger.recoverOrphanedHolds()).toEqual({ settled: 0 });
      expect(opened).toHaveLength(2);
      expect((await first.ledger.audit()).openHolds).toBe(1);
    });

    it('leaves its open holds to the others when it stops normally', async () => {
      const at = await url();
      const [first, second] = [await start(at), await start(at)];
      const payer = await payerOf(first.ledger, { credit: 1000n });
      await first.ledger.reserve(reservation(payer, 100n));
      await first.ledger.close();
      await expect(first.ledger.reserve(reservation(payer, 1n))).rejects.toThrow(/closed/);
      expect(await second.ledger.recoverOrphanedHolds()).toEqual({ settled: 1 });
      await expectSound(second.ledger);
    });
  });

  describe('the audit', () => {
    const changed = async (statement: string) => {
      const opened = await start();
      const payer = await payerOf(opened.ledger, { credit: 1000n, cap: 1000n });
      const [done, left] = [reservation(payer, 100n), reservation(payer, 50n)];
      for (const requested of [done, left]) await opened.ledger.reserve(requested);
      await opened.ledger.settle(done.requestId, settlement(120n));
      const { ok, accounts, transactions, entries, openHolds } = await opened.ledger.audit();
      expect({ ok, accounts, transactions, entries, openHolds }).toEqual({
        ok: true,
        accounts: 1,
        transactions: 2,
        entries: 5,
        openHolds: 1,
      });
      await opened.store.transaction((tx) => sql.raw(statement).execute(tx));
      const { faults, ...audit } = await opened.ledger.audit();
      expect(audit.ok).toBe(false);
      const names = {
        [payer.accountId]: 'ACCOUNT',
        [payer.keyId]: 'KEY',
        [done.requestId]: 'DONE',
        [left.requestId]: 'LEFT',
      };
      return faults.map((fault) =>
        Object.entries(names).reduce((text, [id, name]) => text.replaceAll(id, name), fault),
      );
    };

    it.each([
      [
        "update gateway_entries set amount = amount + 1 where account_id = 'revenue'",
        /All entries add up to 1/,
      ],
      [
        "update gateway_entries set amount = amount + 1 where account_id = 'revenue'",
        /settle DONE add up to 1/,
      ],
      [
        "update gateway_entries set amount = amount + 1 where account_id = 'revenue'",
        /DONE cost 120; .* 121/,
      ],
      ["delete from gateway_transactions where kind = 'settle'", /belongs to transaction settle DONE/],
      ["delete from gateway_entries where kind = 'settle'", /settle DONE has 0 entries/],
      ["delete from gateway_entries where kind = 'settle'", /DONE was charged 100; the ledger has 0/],
      ["delete from gateway_entries where kind = 'settle'", /DONE overran by 20; the ledger has 0/],
      [
        "update gateway_entries set account_id = 'x' where account_id = 'house'",
        /belong to account x, which does not exist/,
      ],
      [
        "update gateway_accounts set balance = balance + 1 where kind = 'user'",
        /ACCOUNT has a balance of 901; .* 900/,
      ],
      ["update gateway_accounts set included = 5 where kind = 'user'", /ACCOUNT included 5; .* 0/],
      ["update gateway_accounts set held = 0 where kind = 'user'", /Account ACCOUNT holds 0; .* 50/],
      ['update gateway_keys set held = 49', /Key KEY holds 49; .* 50/],
      ['delete from gateway_holds', /Account ACCOUNT holds 50; .* 0/],
      ["update gateway_holds set key_id = 'k'", /hold of request LEFT belongs to an unknown key/],
      ['update gateway_keys set spent = 7', /Key KEY has spent 7; its requests were charged 100/],
      [
        'update gateway_holds set request_id = (select id from gateway_requests)',
        /DONE has ended, but 50 are/,
      ],
      ['update gateway_requests set cost_fresh = 1', /DONE cost 120; its components add up to 61/],
      ['delete from gateway_requests', /DONE was settled, but has no row/],
      [
        "insert into gateway_idempotency (account_id, key, body_hash, request_id, state, claimed_at) values ('a', 'k', 'b', 'r', 'open', 't')",
        /r keeps an idempotency key open/,
      ],
    ])('after %s says %s', async (statement, fault) => {
      expect(await changed(statement)).toEqual(expect.arrayContaining([expect.stringMatching(fault)]));
    });

    it('is not needed for what the constraints of the tables prevent', async () => {
      const opened = await start();
      await payerOf(opened.ledger, { credit: 10n });
      const broken = [
        "update gateway_accounts set held = 11 where kind = 'user'",
        "update gateway_accounts set balance = -1 where kind = 'user'",
        'update gateway_keys set cap = -1',
        "insert into gateway_entries values ('r', 'settle', 'a', 0)",
      ];
      for (const statement of broken)
        await expect(
          opened.store.transaction((tx) => sql.raw(statement).execute(tx)),
          statement,
        ).rejects.toThrow();
    });
  });
});
