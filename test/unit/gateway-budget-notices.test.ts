import { text } from 'node:stream/consumers';
import { afterEach, expect, it } from 'vitest';
import { BudgetNotifier } from '../../src/gateway/budgets/notifier.ts';
import { noticeText } from '../../src/gateway/budgets/notices.ts';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { describeStores } from '../support/databases.ts';
import { ledgerOn, type OpenLedger, payerOf, reservation, settlement } from '../support/ledger.ts';
import { serve } from '../support/local-server.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { webhookFault } from '../support/webhook-receiver.ts';

const key = Buffer.alloc(32, 9);
const secret = `whsec_${key.toString('base64')}`;
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Two gateways on a database whose clock is set by the test, and a budget of 1000 for a key. */
async function world(database: string, period: string) {
  const clock = new ManualClock(Date.UTC(2030, 0, 1, 12));
  const open = async (): Promise<OpenLedger> => {
    const opened = await ledgerOn(database, { now: clock.now });
    closers.push(() => opened.close());
    return opened;
  };
  const [first, second] = [await open(), await open()];
  const payer = await payerOf(first.ledger, { credit: 10n ** 9n });
  const owner = { kind: 'key', id: payer.keyId } as const;
  const { id: budgetId } = await first.ledger.setBudget({ owner, period, amount: 1000n });
  let turn = 0;
  /** Charges an amount, by one gateway and then the other. */
  const spend = async (amount: bigint) => {
    const { ledger } = turn++ % 2 === 0 ? first : second;
    const requested = reservation(payer, amount);
    const { outcome } = await ledger.reserve(requested);
    if (outcome === 'reserved') await ledger.settle(requested.requestId, settlement(amount));
    return outcome;
  };
  /** The notices of both since the last call. */
  const notices = () =>
    [first, second]
      .flatMap((gateway) => gateway.notices.splice(0))
      .map(({ reason, budget }) => `${reason} ${budget.spent}`);
  return { clock, first, second, payer, budgetId, spend, notices };
}

interface Received {
  readonly id: string;
  readonly body: { readonly type: string; readonly data: Readonly<Record<string, unknown>> };
}

async function receiver(statusOf: (count: number) => number = () => 204) {
  const received: Received[] = [];
  const faults: string[] = [];
  const server = await serve((request, response) => {
    void (async () => {
      const body = await text(request);
      const fault = webhookFault(request.headers, body, secret);
      if (fault !== undefined) faults.push(fault);
      received.push({
        id: String(request.headers['webhook-id']),
        body: JSON.parse(body) as Received['body'],
      });
      response.writeHead(statusOf(received.length)).end();
    })();
  });
  closers.push(() => server.close());
  return { url: server.url, received, faults };
}

/** A gateway's notifier, with short delays. */
async function notifierOn(database: string, url: string, name: string) {
  const store = await GatewayStore.open({ url: database, replicaId: name });
  const messages: string[] = [];
  const notifier = new BudgetNotifier({
    store,
    webhook: { url, key },
    onNotice: (message) => messages.push(message),
    timings: { timeoutMs: 5000, firstDelayMs: 30, maxDelayMs: 100, giveUpMs: 3_600_000, pollMs: 10 },
  });
  notifier.start();
  closers.push(async () => {
    await notifier.close();
    await store.close();
  });
  return { notifier, messages, store };
}

describeStores('notices of budgets', (url) => {
  it('are given at 50, 80 and 100 % and at the first refusal, once in a calendar period by all gateways', async () => {
    const { clock, spend, notices } = await world(await url(), 'day');
    for (const amount of [499n, 0n]) await spend(amount);
    expect(notices()).toEqual([]);
    await spend(1n);
    expect(notices()).toEqual(['50 500']);
    for (let count = 0; count < 4; count++) await spend(50n);
    expect(notices()).toEqual([]);
    await spend(100n);
    expect(notices()).toEqual(['80 800']);
    expect([await spend(201n), await spend(201n)]).toEqual(['budget_exceeded', 'budget_exceeded']);
    expect(notices()).toEqual(['refused 800']);
    await spend(200n);
    expect(notices()).toEqual(['100 1000']);
    expect(await spend(1n)).toBe('budget_exceeded');
    expect(notices()).toEqual([]);
    clock.pass(24 * 3_600_000);
    await spend(900n);
    expect(notices()).toEqual(['50 900', '80 900']);
  });

  it('are given again in a rolling period when it has passed', async () => {
    const { clock, spend, notices } = await world(await url(), '24h');
    await spend(600n);
    expect(notices()).toEqual(['50 600']);
    clock.pass(20 * 3_600_000);
    await spend(100n);
    expect(notices()).toEqual([]);
    clock.pass(5 * 3_600_000);
    await spend(450n);
    expect(notices()).toEqual(['50 550']);
  });

  it('are posted once, signed, by one of several gateways', async () => {
    const database = await url();
    const { spend, budgetId, payer } = await world(database, 'month');
    const { url: hook, received, faults } = await receiver();
    const gateways = [await notifierOn(database, hook, 'one'), await notifierOn(database, hook, 'two')];
    await spend(500n);
    await spend(300n);
    await expect.poll(() => received.length).toBe(2);
    await Promise.all(gateways.map(({ notifier }) => notifier.close()));
    expect(faults).toEqual([]);
    expect(gateways.flatMap(({ messages }) => messages)).toEqual([]);
    expect(received.map(({ body }) => body.data['threshold_percent'])).toEqual(
      expect.arrayContaining([50, 80]),
    );
    expect(received.find(({ body }) => body.data['threshold_percent'] === 80)?.body).toEqual({
      type: 'budget.threshold_reached',
      timestamp: '2030-01-01T12:00:00.000Z',
      data: {
        budget_id: budgetId,
        owner: 'key',
        owner_id: payer.keyId,
        account: payer.accountId,
        period: 'month',
        time_zone: 'UTC',
        threshold_percent: 80,
        amount_nanodollars: 1000,
        spent_nanodollars: 800,
        held_nanodollars: 0,
        resets_at: '2030-02-01T00:00:00.000Z',
      },
    });
    expect(received).toHaveLength(2);
  });

  it('are posted again, under the same id, when the webhook did not take them', async () => {
    const database = await url();
    const { spend } = await world(database, 'month');
    const { url: hook, received } = await receiver((count) => (count < 3 ? 500 : 204));
    const { messages, store } = await notifierOn(database, `${hook}/?token=hidden`, 'one');
    await spend(500n);
    const left = () => store.read((db) => db.selectFrom('gateway_notices').selectAll().execute());
    await expect.poll(async () => [received.length, (await left()).length]).toEqual([3, 0]);
    expect(new Set(received.map(({ id }) => id)).size).toBe(1);
    expect(messages).toHaveLength(2);
    for (const message of messages) {
      expect(message).toMatch(/did not take the notice n_\w+: status 500/);
      expect(message).not.toContain('hidden');
    }
  });

  it('are sentences in the log', async () => {
    const { spend, first, second, budgetId, payer } = await world(await url(), 'day');
    await spend(850n);
    expect([...first.notices, ...second.notices].map(noticeText)).toEqual(
      [50, 80].map(
        (percent) =>
          `the budget ${budgetId} of the key ${payer.keyId} per day has reached ${percent} %: $0.00000085 of $0.000001 are spent, $0.00 are held; it allows more at 2030-01-02T00:00:00.000Z`,
      ),
    );
  });
});
