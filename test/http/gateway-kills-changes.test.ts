import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import {
  type GatewayProcess,
  gatewayProcess,
  letBeatsStop,
  writeConfig,
} from '../support/gateway/gateways.ts';
import { expectHonest, Load } from '../support/gateway/load.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { customerOf, otherRates, soldAt, Witness } from '../support/gateway/world.ts';
import { freshDataDir } from '../support/host.ts';
import { killCount, killsOn, pause, randomFrom, report } from '../support/kills/process.ts';
import { ledgerOn } from '../support/ledger.ts';
import { until } from '../support/until.ts';
import { rounds } from '../support/tier.ts';

const token = 'operator-token-that-is-long-enough';
/** So small that they refuse some requests until the next day begins. */
const budgets = { team: '0.02', account: '0.01', key: '0.01' };

/** A gateway with an admin API. */
interface Running extends GatewayProcess {
  readonly adminUrl: string;
}

describeDatabases('two gateways that are killed while their operator changes everything', (url, kind) => {
  const kills = killCount(rounds(4, 2));
  const undo: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  it.runIf(killsOn(kind))(`${kills} times`, { timeout: 600_000 + kills * 20_000 }, async () => {
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const provider = await fakeProvider(() => ({
      say: { text: 'word '.repeat(random(40)), usage: { input: 5 + random(100), output: 1 + random(60) } },
      delayMs: random(30),
      frameMs: random(8),
    }));
    undo.push(() => provider.close());
    // The operator changes between two price lists.
    const sold = soldAt(provider);
    const priceLists = [sold, sold.map((one) => ({ ...one, card: otherRates }))].map((list) =>
      readFileSync(writeConfig(list), 'utf8'),
    );
    const config = writeConfig(sold);
    const tokenFile = join(freshDataDir(), 'tokens');
    writeFileSync(tokenFile, `ada ${token}\n`);

    const database = await url();
    const witness = new Witness(await ledgerOn(database));
    undo.push(() => witness.books.close());
    const { ledger, store } = witness.books;
    const credit = 10n ** 12n;
    const customers = [
      await customerOf(witness.books, { credit }),
      await customerOf(witness.books, { credit }),
    ];
    const [first, second] = customers;
    if (!first || !second) throw new Error('no customers');
    const team = await ledger.createAccount('team', {});
    for (const { accountId } of customers) await ledger.updateAccount(accountId, { parent: team.id });

    const gateways: (Running | undefined)[] = [undefined, undefined];
    undo.push(() => Promise.all(gateways.map((one) => one?.end())));
    const start = async (): Promise<Running> => {
      const started = await gatewayProcess(config, database, [
        '--admin-port',
        '0',
        '--admin-token-file',
        tokenFile,
      ]);
      const [, adminUrl = ''] = /metrics on (\S+)\/metrics/.exec(started.output.stdout) ?? [];
      return { ...started, adminUrl };
    };
    /** Unexpected answers of the admin API. */
    const odd: string[] = [];
    const done: Record<string, number> = {};
    const change = async (name: string, method: string, route: string, body?: object) => {
      const { adminUrl } = gateways[random(2)] ?? {};
      if (adminUrl === undefined) return;
      try {
        const response = await fetch(`${adminUrl}/admin/v1${route}`, {
          method,
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          ...(body ? { body: JSON.stringify(body) } : {}),
          signal: AbortSignal.timeout(20_000),
        });
        const text = await response.text();
        if (response.ok) done[name] = (done[name] ?? 0) + 1;
        // Two operators may remove one budget; a cap is not set below what is spent; 503 while the other gateway has the lock.
        else if (![404, 409, 503].includes(response.status))
          odd.push(`${method} ${route}: ${response.status} ${text}`);
      } catch {
        // Its gateway was killed.
      }
    };
    const changes: (() => Promise<void>)[] = [
      () => change('cap', 'PATCH', `/keys/${first.keyId}`, { cap_usd: `${1 + random(5)}` }),
      () => change('cap', 'PATCH', `/keys/${first.keyId}`, { cap_usd: null }),
      () => change('limit', 'PATCH', `/keys/${second.keyId}`, { concurrency: 4 + random(8) }),
      () => change('models', 'PATCH', `/keys/${second.keyId}`, { models: null, label: `n${random(9)}` }),
      async () => {
        await change('disabled', 'PATCH', `/keys/${second.keyId}`, { disabled: true });
        for (let n = 0; n < 10; n++)
          await change('enabled', 'PATCH', `/keys/${second.keyId}`, { disabled: false });
      },
      () => change('budget', 'POST', '/budgets', { account: 'team', usd: budgets.team, per: 'day' }),
      () =>
        change('budget', 'POST', '/budgets', { account: first.accountId, usd: budgets.account, per: '24h' }),
      () => change('budget', 'POST', '/budgets', { key: second.keyId, usd: budgets.key, per: 'day' }),
      async () => {
        const own = (await ledger.budgets()).filter(({ owner }) => owner.kind === 'key');
        for (const { id } of own) await change('budget removed', 'DELETE', `/budgets/${id}`);
      },
      async () => {
        const next = join(dirname(config), 'next');
        writeFileSync(next, priceLists[random(2)] ?? '');
        renameSync(next, config);
        await change('reload', 'POST', '/reload');
      },
      // A day passes: what was spent before counts no more.
      async () => {
        await store.transaction(async (tx) => {
          await tx
            .updateTable('gateway_budgets')
            .set({ ends_at: '2020-01-01T00:00:00.000Z' })
            .where('period', '=', 'day')
            .execute();
          await tx
            .updateTable('gateway_budgets')
            .set({ slices: sql`'[[0,"' || spent || '"]]'` })
            .where('slices', 'is not', null)
            .execute();
        });
        done['day'] = (done['day'] ?? 0) + 1;
      },
    ];
    let isChanging = true;
    const changing = (async () => {
      while (isChanging) {
        await changes[random(changes.length)]?.();
        await pause(random(60));
      }
    })();
    undo.push(() => {
      isChanging = false;
      return changing;
    });

    const load = new Load({
      customers,
      random,
      gateways: () => gateways.flatMap((one) => (one ? [one.url] : [])),
      leaving: 10,
      attempts: 10_000,
      refusals: /insufficient_quota|key_spend_cap_exceeded|invalid_api_key/,
    });
    const expectSound = async (about: string) => {
      expect((await ledger.audit()).faults, about).toEqual([]);
      const over = (await ledger.budgets()).filter(({ amount, spent, held }) => spent + held > amount);
      expect(over, about).toEqual([]);
      const overCap = (await ledger.keys()).filter(
        ({ cap, spent, held }) => cap !== undefined && spent + held > cap,
      );
      expect(overCap, about).toEqual([]);
    };
    const serve = async (index: number) => {
      gateways[index] = await start();
    };
    await Promise.all([serve(0), serve(1)]);
    load.start(12);
    for (let round = 0; round < kills; round++) {
      const about = `seed ${seed}, round ${round}`;
      await until(async () => (await witness.openHolds()) > 0);
      await pause(random(900));
      // The other one goes on.
      const index = random(2);
      const killed = gateways[index];
      killed?.kill('SIGKILL');
      await killed?.exit;
      gateways[index] = undefined;
      await expectSound(about);
      // Where the database is a file of this machine, its end is seen at once.
      if (kind === 'postgres') await letBeatsStop(witness.books, killed?.pid);
      await serve(index);
    }
    isChanging = false;
    await changing;
    await ledger.setKeyDisabled(second.keyId, false);
    await ledger.updateKey(first.keyId, { cap: null });
    for (const { id } of await ledger.budgets()) await ledger.removeBudget(id);
    const answered = () => load.bought.filter(({ end }) => end === 'answered').length;
    const before = answered();
    await until(() => answered() > before);
    await load.stop();
    await expect.poll(() => witness.openHolds(), { timeout: 60_000 }).toBe(0);
    for (const gateway of gateways) {
      gateway?.kill('SIGTERM');
      expect(await gateway?.exit).toEqual({ code: 0, signal: null });
    }
    expect(odd, `seed ${seed}`).toEqual([]);
    const rows = await expectHonest(witness, load, { customers, credit, about: `seed ${seed}` });
    await expectSound(`seed ${seed}`);
    const crashed = rows.filter(({ ended }) => ended === 'crash').length;
    const refused = rows.filter(({ ended }) => ended === 'refused').length;
    expect(answered(), `seed ${seed}`).toBeGreaterThan(0);
    report({
      kind,
      kills,
      requests: rows.length,
      answered: answered(),
      crashed,
      refused,
      changes: done,
      seed,
    });
  });
});
