import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Reservation, SettleResult } from '../../src/gateway/ledger/types.ts';
import type { GatewayStore } from '../../src/gateway/store/index.ts';
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
import { runsRest } from '../support/tier.ts';

/** A number that picks one of what there is at that moment. */
const pick = fc.nat(1_000_000);
const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      by: pick,
      payer: pick,
      amount: fc.nat(400),
      tag: fc.constantFrom('', 'ann', 'bo'),
      key: fc.option(fc.nat(3)),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      by: pick,
      which: pick,
      share: fc.nat(150),
      model: fc.constantFrom('one', 'two'),
      answered: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('release' as const),
      by: pick,
      which: pick,
      answered: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reserve again' as const), by: pick, which: pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('note' as const), by: pick, payer: pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('credit' as const),
      by: pick,
      payer: pick,
      amount: fc.integer({ min: -200, max: 200 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('die' as const), by: pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('recover' as const), by: pick }) },
);
/** What is in one round happens at the same time. */
const rounds = fc.array(fc.array(act, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 8 });
type Act = typeof act extends fc.Arbitrary<infer T> ? T : never;

/** The amount for both payers together; a little less than they may spend. */
const teamBudget = 1300n;
const answer = { status: 200, headers: {}, body: 'ok' };

/** Some payers of their own, so that one world after the other shares a database. */
class World {
  readonly #replicas: readonly OpenLedger[];
  readonly #payers: { accountId: string; keyId: string }[] = [];
  readonly #owners: string[] = [];
  readonly #credit = new Map<string, bigint>();
  readonly #reservations: Reservation[] = [];
  /** The settled result of each request; every settlement returns the same. */
  readonly #receipts = new Map<string, SettleResult>();

  constructor(replicas: readonly OpenLedger[]) {
    this.#replicas = replicas;
  }

  async begin(): Promise<void> {
    const { ledger } = this.#one(0);
    const { id: parent } = await ledger.createAccount(crypto.randomUUID(), {});
    await ledger.setBudget({ owner: { kind: 'account', id: parent }, period: '12h', amount: teamBudget });
    for (const money of [{ credit: 1000n }, { credit: 600n, included: 300n, cap: 500n }]) {
      const payer = await payerOf(ledger, money);
      await ledger.updateAccount(payer.accountId, { parent });
      const owner = { kind: 'key', id: payer.keyId } as const;
      await ledger.setBudget({ owner, period: 'month', amount: 800n });
      this.#owners.push(parent, payer.keyId);
      this.#payers.push(payer);
      this.#credit.set(payer.accountId, money.credit + (money.included ?? 0n));
    }
  }

  async do(one: Act): Promise<void> {
    const { ledger, store } = this.#one(one.by);
    switch (one.kind) {
      case 'reserve': {
        const { amount, key } = one;
        const idempotency = key === null ? {} : { idempotency: { key: String(key), bodyHash: 'b' } };
        const { tag } = one;
        const requested = reservation(this.#payer(one.payer), BigInt(amount), { ...idempotency, tag });
        const { outcome } = await ledger.reserve(requested);
        if (outcome === 'reserved') this.#reservations.push(requested);
        else if (outcome !== 'idempotency')
          ledger.recordRefusal(requested, ending({ status: 402, outcome: 'failed' }));
        return;
      }
      case 'reserve again': {
        const requested = this.#of(one.which);
        if (requested) expect(await ledger.reserve(requested)).toEqual({ outcome: 'reserved' });
        return;
      }
      case 'settle': {
        const requested = this.#of(one.which);
        if (!requested) return;
        const cost = (requested.amount * BigInt(one.share)) / 100n;
        const more = { effectiveModel: one.model, ...(one.answered ? { answer } : {}) };
        this.#recordReceipt(
          requested.requestId,
          await ledger.settle(requested.requestId, settlement(cost, more)),
        );
        return;
      }
      case 'release': {
        const requested = this.#of(one.which);
        if (requested) await ledger.release(requested.requestId, ending(one.answered ? { answer } : {}));
        return;
      }
      case 'note':
        return ledger.recordRefusal(reservation(this.#payer(one.payer), 1n), ending({ status: 429 }));
      case 'credit': {
        const { accountId } = this.#payer(one.payer);
        const amount = BigInt(one.amount);
        await ledger.credit(accountId, amount).then(
          () => this.#credit.set(accountId, (this.#credit.get(accountId) ?? 0n) + amount),
          (error: unknown) => expect(error).toMatchObject({ name: 'LedgerError' }),
        );
        return;
      }
      case 'die':
        await store.transaction((tx) =>
          tx
            .updateTable('gateway_replicas')
            .set({ beat_at: sql`beat_at - 40000` })
            .where('id', '=', store.replicaId)
            .execute(),
        );
        return;
      case 'recover':
        await ledger.recoverOrphanedHolds();
        return;
    }
  }

  /** What the tables say of one moment, which may be while operations are running. */
  async audit(): Promise<void> {
    expect((await this.#one(1).ledger.audit()).faults).toEqual([]);
  }

  /** @param over everything is settled */
  async check(over: boolean): Promise<void> {
    const { ledger, store } = this.#one(0);
    await this.audit();
    expect(await usageSpendOf(store, this.#credit.keys())).toEqual(
      await entrySpendOf(store, this.#credit.keys()),
    );
    const rows = await store.read((db) =>
      db
        .selectFrom('gateway_requests')
        .select(['id', 'account_id', 'charged', 'overrun'])
        .where('account_id', 'in', [...this.#credit.keys()])
        .execute(),
    );
    const charged = new Map(rows.map((row) => [row.id, row]));
    const budgets = (await ledger.budgets()).filter(({ owner }) => this.#owners.includes(owner.id));
    expect(budgets).toHaveLength(3);
    for (const { spent, held, amount } of budgets) expect(spent + held).toBeLessThanOrEqual(amount);
    const total = rows.reduce((sum, row) => sum + row.charged, 0n);
    if (over) {
      const [team] = budgets.filter(({ amount }) => amount === teamBudget);
      expect(team).toMatchObject({ spent: total, held: 0n });
    }
    for (const [id, receipt] of this.#receipts) expect(charged.get(id)).toMatchObject(receipt);
    for (const [id, credit] of this.#credit) {
      const spent = rows.filter((row) => row.account_id === id).reduce((sum, row) => sum + row.charged, 0n);
      const balance = await ledger.balance(id);
      expect(balance.remaining).toBeGreaterThanOrEqual(0n);
      if (over) expect(balance.remaining).toBe(credit - spent);
    }
  }

  async end(): Promise<void> {
    await Promise.all(
      this.#reservations.map(async ({ requestId, amount }, index) => {
        this.#recordReceipt(requestId, await this.#one(index).ledger.settle(requestId, settlement(amount)));
      }),
    );
    await this.check(true);
  }

  #recordReceipt(requestId: string, receipt: SettleResult): void {
    expect(receipt).toEqual(this.#receipts.get(requestId) ?? receipt);
    this.#receipts.set(requestId, receipt);
  }

  #one(by: number): OpenLedger {
    const one = this.#replicas[by % this.#replicas.length];
    if (!one) throw new Error('no replicas');
    return one;
  }

  #payer(which: number) {
    const payer = this.#payers[which % this.#payers.length];
    if (!payer) throw new Error('no payers');
    return payer;
  }

  #of(which: number): Reservation | undefined {
    return this.#reservations[which % this.#reservations.length];
  }
}

const toSums = (rows: readonly { readonly account_id: string; readonly sum: bigint | string | null }[]) =>
  Object.fromEntries(rows.map(({ account_id, sum }) => [account_id, BigInt(sum ?? 0)]));

/** What accounts spent, by the usage. */
const usageSpendOf = async (store: GatewayStore, accounts: Iterable<string>) =>
  toSums(
    await store.read((db) =>
      db
        .selectFrom('gateway_usage')
        .select(['account_id', sql<bigint>`sum(spent)`.as('sum')])
        .where('account_id', 'in', [...accounts])
        .groupBy('account_id')
        .having(sql<bigint>`sum(spent)`, '<>', 0n)
        .execute(),
    ),
  );

/** The same by the entries of requests. */
const entrySpendOf = async (store: GatewayStore, accounts: Iterable<string>) =>
  toSums(
    await store.read((db) =>
      db
        .selectFrom('gateway_entries')
        .select(['account_id', sql<bigint>`-sum(amount)`.as('sum')])
        .where('kind', '=', 'settle')
        .where('account_id', 'in', [...accounts])
        .groupBy('account_id')
        .execute(),
    ),
  );

describeStores('random concurrent operations of several gateways', (url, kind) => {
  const replicas: OpenLedger[] = [];
  beforeAll(async () => {
    const at = await url();
    for (let index = 0; index < (kind === 'postgres' ? 3 : 2); index++) replicas.push(await ledgerOn(at));
  });
  afterAll(async () => {
    for (const one of replicas) {
      expect(one.faults).toEqual([]);
      await one.close();
    }
  });

  it('neither create nor lose money, overspend an account, or bill a request twice', async () => {
    await fc.assert(
      fc.asyncProperty(rounds, async (all) => {
        const world = new World(replicas);
        await world.begin();
        for (const round of all) {
          await Promise.all([...round.map((one) => world.do(one)), world.audit()]);
          await world.check(false);
        }
        await world.end();
      }),
      { numRuns: runsRest ? 40 : 13, endOnFailure: true },
    );
  });

  it('spend a balance to its last nanodollar and no further', async () => {
    const [first] = replicas;
    if (!first) throw new Error('no replicas');
    const payer = await payerOf(first.ledger, { credit: 1000n });
    const requested = Array.from({ length: 300 }, () => reservation(payer, 7n, { requestId: newRequest() }));
    const outcomes = await Promise.all(
      requested.map(async (one, index) => await replicas[index % replicas.length]?.ledger.reserve(one)),
    );
    expect(outcomes.filter((one) => one?.outcome === 'reserved')).toHaveLength(142);
    expect((await first.ledger.balance(payer.accountId)).remaining).toBe(6n);
    expect((await first.ledger.audit()).faults).toEqual([]);
  });
});
