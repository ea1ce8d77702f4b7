import { afterEach, expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { gatewayCommand, gatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { ask, customerOf, nanoOf, soldAt, Witness } from '../support/gateway/world.ts';
import { untilNextSignal } from '../support/host.ts';
import { ledgerOn } from '../support/ledger.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const say = { text: 'One two three four five six.', usage: { input: 11, output: 7 } };
const cost = nanoOf({ fresh: 11, output: 7 });
const { path, body } = wires.chat;

/** A gateway process whose provider holds every answer in its middle until it may go on. */
async function atWork(database: string, more: readonly string[] = []) {
  const provider = await fakeProvider();
  undo.push(() => provider.close());
  const goOn = Promise.withResolvers<void>();
  let reached = 0;
  let wanted = { count: 0, resolve: () => {} };
  const here = () => {
    reached += 1;
    if (reached === wanted.count) wanted.resolve();
    return goOn.promise;
  };
  provider.script(async ({ stream }) => {
    if (!stream) await here();
    return { say, hold: (frame) => (frame === 4 ? here() : undefined) };
  });
  const gateway = await gatewayProcess(writeConfig(soldAt(provider)), database, more);
  undo.push(() => gateway.end());
  const witness = new Witness(await ledgerOn(database));
  undo.push(() => witness.books.close());
  const customer = await customerOf(witness.books);
  const asking = (model: string, stream: boolean) =>
    ask(gateway.url, path, { customer, body: body(model, stream) });
  return {
    gateway,
    witness,
    customer,
    asking,
    goOn: goOn.resolve,
    /** Requests in one piece and streams, on two wires of providers; all of them in their middle when it resolves. */
    begin: async () => {
      const all = Promise.withResolvers<void>();
      wanted = { count: reached + 4, resolve: all.resolve };
      const buffered = ['chat', 'claude'].map((model) => asking(model, false));
      const streams = ['chat', 'claude'].map(async (model) => (await asking(model, true)).text());
      await all.promise;
      return { buffered, streams };
    },
  };
}

describeDatabases('a gateway process with running requests', (url) => {
  it('is not affected by concurrent commands', async () => {
    const database = await url();
    const { witness, customer, begin, goOn } = await atWork(database);
    const { buffered, streams } = await begin();
    expect(await witness.openHolds()).toBe(4);
    const [audit, key] = await Promise.all([
      gatewayCommand(database, 'ledger', 'audit'),
      gatewayCommand(database, 'key', 'create', '--account', customer.accountId),
      gatewayCommand(database, 'account', 'credit', customer.accountId, '5'),
    ]);
    expect(audit).toMatchObject({ ok: true, open_holds: 4 });
    expect(key).toMatchObject({ key: expect.stringMatching(/^lathe_gateway_/) as string });
    expect(await witness.openHolds()).toBe(4);
    goOn();
    for (const response of await Promise.all(buffered)) expect(response.status).toBe(200);
    for (const text of await Promise.all(streams)) expect(text).toContain('[DONE]');
    const rows = await witness.rows();
    expect(rows.map((row) => [row.ended, row.cost])).toEqual(rows.map(() => ['settled', cost]));
    expect(rows.length).toBe(4);
    expect(await witness.faults()).toEqual([]);
    const { remaining } = await witness.books.ledger.balance(customer.accountId);
    expect(remaining).toBe(10n ** 12n + 5n * 10n ** 9n - 4n * cost);
  });

  it('lets them finish when it is stopped, accepts no more, and exits normally', async () => {
    const { gateway, witness, begin, goOn, asking } = await atWork(await url(), ['--grace-secs', '600']);
    const { buffered, streams } = await begin();
    gateway.kill('SIGTERM');
    await gateway.waitFor('stderr', /stopping/);
    await expect(asking('chat', false)).rejects.toThrow();
    goOn();
    for (const response of await Promise.all(buffered)) {
      expect(response.status).toBe(200);
      expect(response.headers.get('x-svc-cost-nanousd')).toBe(String(cost));
      await response.text();
    }
    for (const text of await Promise.all(streams)) expect(text).toContain('[DONE]');
    expect(await gateway.exit).toEqual({ code: 0, signal: null });
    expect((await witness.rows()).map((row) => row.cost)).toEqual([cost, cost, cost, cost]);
    expect(await witness.faults()).toEqual([]);
  });

  it.each([
    ['stopped twice', []],
    ['past its grace period', ['--grace-secs', '1']],
  ] as const)('cuts them when it is %s: they end in-band, and are settled', async (how, more) => {
    const { gateway, witness, begin } = await atWork(await url(), more);
    const { buffered, streams } = await begin();
    gateway.kill('SIGTERM');
    await gateway.waitFor('stderr', /stopping/);
    if (how === 'stopped twice') {
      await untilNextSignal();
      gateway.kill('SIGTERM');
    }
    for (const response of await Promise.all(buffered)) {
      expect(response.status).toBe(503);
      expect(response.headers.get('x-svc-cost-nanousd')).toBe('0');
      expect(await response.text()).toContain('gateway_stopping');
    }
    for (const text of await Promise.all(streams)) {
      expect(text).toContain('One two');
      expect(text).toMatch(/data: \{"error":\{.*gateway_stopping/);
      expect(text).not.toContain('[DONE]');
    }
    expect(await gateway.exit).toEqual({ code: 0, signal: null });
    const rows = await witness.rows();
    // What was seen of the streams is paid; those in one piece came to nothing.
    for (const row of rows) {
      expect(row.ended).toBe(row.stream === 1n ? 'settled' : 'released');
      expect(row.outcome).toBe(row.stream === 1n ? 'cut' : 'failed');
      expect(row.cost > 0n).toBe(row.stream === 1n);
    }
    expect(await witness.faults()).toEqual([]);
  });
});
