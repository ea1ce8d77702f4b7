import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Reservation, ReserveResult } from '../../src/gateway/ledger/types.ts';
import { describeStores } from '../support/databases.ts';
import { type ModelBudget, spentAt } from '../support/gateway/budget-model.ts';
import { ending, ledgerOn, type OpenLedger, type Payer, reservation, settlement } from '../support/ledger.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { runsRest } from '../support/tier.ts';

const minute = 60_000;
const periods = [
  ['day', 'Europe/Berlin'],
  ['day', 'Africa/Cairo'],
  ['week', 'America/New_York'],
  ['month', 'UTC'],
  ['1h', undefined],
  ['2d', undefined],
] as const;
/** A day before the clocks of some zone change. */
const starts = [
  '2026-03-28T12:00:00Z',
  '2026-10-24T12:00:00Z',
  '2026-04-23T12:00:00Z',
  '2026-10-31T12:00:00Z',
];

const pick = fc.nat(1_000_000);
const act = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      by: pick,
      payer: pick,
      amount: fc.nat(400),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), by: pick, which: pick, share: fc.nat(130) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const), by: pick, which: pick }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.oneof(fc.nat(10 * minute), fc.nat(10 * 60 * minute), fc.nat(4 * 24 * 60 * minute)),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('set' as const),
      by: pick,
      owner: pick,
      period: pick,
      amount: fc.bigInt(0n, 1500n),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), by: pick, which: pick }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('move' as const), by: pick, account: pick, below: pick }),
  },
);
type Act = typeof act extends fc.Arbitrary<infer T> ? T : never;

const one = <T>(list: readonly T[], which: number): T => {
  if (list.length === 0) throw new Error('an empty list');
  return list[which % list.length] as T;
};

/** Two accounts below a team, below a company, with two keys each; and what the model knows of them. */
class World {
  readonly #replicas: readonly OpenLedger[];
  readonly #clock: ManualClock;
  readonly #parents = new Map<string, string | undefined>();
  readonly #payers: Payer[] = [];
  readonly #budgets = new Map<string, ModelBudget>();
  readonly #open = new Map<
    string,
    { readonly reservation: Reservation; readonly budgets: readonly ModelBudget[] }
  >();

  constructor(replicas: readonly OpenLedger[], clock: ManualClock) {
    this.#replicas = replicas;
    this.#clock = clock;
  }

  async begin(): Promise<void> {
    const { ledger } = one(this.#replicas, 0);
    let parent: string | undefined;
    for (const level of ['company', 'team', 'first', 'second']) {
      const above = level === 'second' ? one([...this.#parents.keys()], 1) : parent;
      const { id } = await ledger.createAccount(crypto.randomUUID(), {
        credit: 10n ** 9n,
        ...(above === undefined ? {} : { parent: above }),
      });
      this.#parents.set(id, above);
      parent = id;
      if (level === 'company' || level === 'team') continue;
      for (let key = 0; key < 2; key++) {
        const { row } = await ledger.createKey({ account: id });
        this.#payers.push({ accountId: id, keyId: row.id });
      }
    }
  }

  async do(given: Act): Promise<void> {
    switch (given.kind) {
      case 'wait':
        this.#clock.jump(given.ms);
        return;
      case 'reserve':
        return await this.#reserve(
          one(this.#replicas, given.by),
          one(this.#payers, given.payer),
          BigInt(given.amount),
        );
      case 'settle':
      case 'release':
        return await this.#finish(given);
      case 'set': {
        const owners = [...this.#payers.map(({ keyId }) => keyId), ...this.#parents.keys()];
        const ownerId = one(owners, given.owner);
        const [period, timeZone] = one(periods, given.period);
        const { ledger } = one(this.#replicas, given.by);
        const kind = ownerId.startsWith('k_') ? 'key' : 'account';
        const same = [...this.#budgets.values()].find(
          (set) => set.ownerId === ownerId && set.period === period,
        );
        // Another time zone keeps the end of the period that has begun.
        if (same && same.timeZone !== timeZone) return;
        const { amount } = given;
        const newBudget = {
          owner: { kind, id: ownerId },
          period,
          amount,
          ...(timeZone ? { timeZone } : {}),
        } as const;
        const { id } = await ledger.setBudget(newBudget);
        if (same) same.amount = amount;
        else this.#budgets.set(id, { id, ownerId, period, timeZone, amount, charges: [], held: 0n });
        return;
      }
      case 'remove': {
        if (this.#budgets.size === 0) return;
        const id = one([...this.#budgets.keys()], given.which);
        await one(this.#replicas, given.by).ledger.removeBudget(id);
        this.#budgets.delete(id);
        return;
      }
      case 'move': {
        const [company, , ...accounts] = this.#parents.keys();
        const below = one([undefined, company, one([...this.#parents.keys()], 1)], given.below);
        const account = one(accounts, given.account);
        await one(this.#replicas, given.by).ledger.updateAccount(account, { parent: below ?? null });
        this.#parents.set(account, below);
        return;
      }
    }
  }

  async #reserve({ ledger }: OpenLedger, payer: Payer, amount: bigint): Promise<void> {
    const owners = [payer.keyId, payer.accountId];
    for (let at = this.#parents.get(payer.accountId); at !== undefined; at = this.#parents.get(at))
      owners.push(at);
    const budgets = owners.flatMap((owner) =>
      [...this.#budgets.values()].filter(({ ownerId }) => ownerId === owner),
    );
    const now = this.#clock.now().getTime();
    const isCovered = (budget: ModelBudget) => spentAt(budget, now) + budget.held + amount <= budget.amount;
    const requested = reservation(payer, amount);
    const result = await ledger.reserve(requested);
    if (amount > 0n && !budgets.every(isCovered)) {
      expect(result).toMatchObject({ outcome: 'budget_exceeded' });
      if (result.outcome !== 'budget_exceeded') return;
      const { budget } = result;
      const exceeded = this.#budgets.get(budget.id);
      if (!exceeded) throw new Error(`there is no budget ${budget.id}`);
      expect(isCovered(exceeded)).toBe(false);
      // The nearest level first.
      const ofOwner = (owner: string) => budgets.filter(({ ownerId }) => ownerId === owner).every(isCovered);
      expect(exceeded.ownerId).toBe(owners.find((owner) => !ofOwner(owner)));
      expect(budget).toMatchObject({
        spent: spentAt(exceeded, now),
        held: exceeded.held,
        amount: exceeded.amount,
      });
      if (budget.resetsAt !== undefined) expect(Date.parse(budget.resetsAt)).toBeGreaterThan(now);
      return;
    }
    expect(result).toEqual({ outcome: 'reserved' });
    for (const budget of budgets) budget.held += amount;
    this.#open.set(requested.requestId, { reservation: requested, budgets });
  }

  async #finish(given: Act & { kind: 'settle' | 'release' }): Promise<void> {
    if (this.#open.size === 0) return;
    const [id, { reservation: requested, budgets }] = one([...this.#open], given.which);
    const { ledger } = one(this.#replicas, given.by);
    const cost = given.kind === 'settle' ? (requested.amount * BigInt(given.share)) / 100n : 0n;
    const { charged } =
      given.kind === 'settle'
        ? await ledger.settle(id, settlement(cost))
        : await ledger.release(id, ending());
    this.#open.delete(id);
    for (const budget of budgets) {
      budget.held -= requested.amount;
      budget.charges.push({ atMs: this.#clock.now().getTime(), amount: charged });
    }
  }

  async check(): Promise<void> {
    const { ledger } = one(this.#replicas, 0);
    expect((await ledger.audit()).faults).toEqual([]);
    const now = this.#clock.now().getTime();
    const stored = (await ledger.budgets()).filter(({ id }) => this.#budgets.has(id));
    expect(
      stored.map(({ id, spent, held }) => ({ id, spent, held })).toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    ).toEqual(
      [...this.#budgets.values()]
        .map((budget) => ({ id: budget.id, spent: spentAt(budget, now), held: budget.held }))
        .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    );
  }
}

describeStores('budgets of several gateways', (url, kind) => {
  const replicas: OpenLedger[] = [];
  const clock = new ManualClock();
  beforeAll(async () => {
    const at = await url();
    for (let index = 0; index < 2; index++) replicas.push(await ledgerOn(at, { now: clock.now }));
  });
  afterAll(async () => {
    for (const replica of replicas) {
      expect(replica.faults).toEqual([]);
      await replica.close();
    }
  });
  const first = () => one(replicas, 0).ledger;

  it('agree with a simple model, while time passes over the ends of periods and changes of clocks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...starts),
        fc.array(act, { minLength: 20, maxLength: 120 }),
        async (start, acts) => {
          clock.jump(Date.parse(start) - clock.now().getTime());
          const world = new World(replicas, clock);
          await world.begin();
          for (const [index, given] of acts.entries()) {
            await world.do(given);
            if (index % 10 === 9) await world.check();
          }
          await world.check();
        },
      ),
      { numRuns: runsRest ? 60 : kind === 'sqlite' ? 25 : 12, endOnFailure: true },
    );
  });

  it('are spent to the last nanodollar and no further by 300 callers at once, on every level', async () => {
    const ledger = first();
    const { id: team } = await ledger.createAccount(crypto.randomUUID(), {});
    const payers: Payer[] = [];
    for (let index = 0; index < 3; index++) {
      const { id } = await ledger.createAccount(crypto.randomUUID(), { credit: 10n ** 9n, parent: team });
      const { row } = await ledger.createKey({ account: id });
      payers.push({ accountId: id, keyId: row.id });
      await ledger.setBudget({ owner: { kind: 'key', id: row.id }, period: '5h', amount: 490n });
      await ledger.setBudget({ owner: { kind: 'account', id }, period: 'day', amount: 700n });
    }
    const { id: budgetId } = await ledger.setBudget({
      owner: { kind: 'account', id: team },
      period: 'month',
      amount: 1000n,
    });
    const requested = Array.from({ length: 300 }, (_, index) => reservation(one(payers, index), 7n));
    const outcomes = await Promise.all(
      requested.map((each, index) => one(replicas, index).ledger.reserve(each)),
    );
    const admitted = requested.filter((_, index) => outcomes[index]?.outcome === 'reserved');
    // Each key alone may have 70 of its 100; together they reach the budget of the team first.
    expect(admitted).toHaveLength(142);
    const refused = outcomes.filter(({ outcome }) => outcome !== 'reserved');
    for (const result of refused)
      expect(result).toMatchObject({ outcome: 'budget_exceeded' } satisfies Partial<ReserveResult>);
    await Promise.all(
      admitted.map(({ requestId }, index) =>
        one(replicas, index + 1).ledger.settle(requestId, settlement(7n)),
      ),
    );
    const budgets = await ledger.budgets();
    expect(budgets.find(({ id }) => id === budgetId)).toMatchObject({ spent: 994n, held: 0n });
    for (const { keyId } of payers) {
      const ofKey = budgets.find(({ owner }) => owner.id === keyId);
      expect(ofKey?.held).toBe(0n);
      expect(ofKey?.spent).toBeLessThanOrEqual(490n);
    }
    expect((await ledger.audit()).faults).toEqual([]);
  });

  it('refuse everything below a disabled account, and no account is above itself', async () => {
    const ledger = first();
    const names = ['company', 'team', 'member'].map((name) => `${name} ${crypto.randomUUID()}`);
    const [company = '', team = '', member = ''] = names;
    await ledger.createAccount(company, {});
    await ledger.createAccount(team, { parent: company });
    const { id: accountId } = await ledger.createAccount(member, { parent: team, credit: 100n });
    const { row } = await ledger.createKey({ account: accountId });
    const payer = { accountId, keyId: row.id };
    await expect(ledger.updateAccount(company, { parent: member })).rejects.toThrow(
      /is the same account, or below it/,
    );
    await expect(ledger.updateAccount(company, { parent: company })).rejects.toThrow(/is the same account/);
    await ledger.setAccountDisabled(company, true);
    expect(await ledger.reserve(reservation(payer, 1n))).toEqual({ outcome: 'key_invalid' });
    await ledger.setAccountDisabled(company, false);
    expect(await ledger.reserve(reservation(payer, 1n))).toEqual({ outcome: 'reserved' });
    let parent = company;
    for (let level = 1; level <= 8; level++)
      parent = (await ledger.createAccount(crypto.randomUUID(), { parent })).id;
    await expect(ledger.createAccount(crypto.randomUUID(), { parent })).rejects.toThrow(/up to 8 levels/);
    // The three levels of the company would be above the eight.
    const { id: top } = await ledger.createAccount(crypto.randomUUID(), {});
    await expect(ledger.updateAccount(company, { parent: top })).rejects.toThrow(/up to 8 levels/);
  });
});
