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
import { customerOf, soldAt, Witness } from '../support/gateway/world.ts';
import { killCount, killsOn, pause, randomFrom, report } from '../support/kills/process.ts';
import { ledgerOn } from '../support/ledger.ts';
import { until } from '../support/until.ts';
import { rounds } from '../support/tier.ts';

describeDatabases('a gateway that is killed under load', (url, kind) => {
  const kills = killCount(kind === 'sqlite' ? rounds(4, 2) : 2);
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
    const config = writeConfig(soldAt(provider));
    const database = await url();
    const witness = new Witness(await ledgerOn(database));
    undo.push(() => witness.books.close());
    const credit = 10n ** 12n;
    const customers = [
      await customerOf(witness.books, { credit }),
      await customerOf(witness.books, { credit }),
    ];

    let gateway: GatewayProcess | undefined;
    undo.push(async () => gateway?.end());
    const load = new Load({
      customers,
      random,
      gateways: () => (gateway ? [gateway.url] : []),
      leaving: 10,
      attempts: 10_000,
    });
    load.start(16);
    for (let round = 0; round < kills; round++) {
      gateway = await gatewayProcess(config, database);
      await until(async () => (await witness.openHolds()) > 0);
      await pause(random(900));
      gateway.kill('SIGKILL');
      await gateway.exit;
      expect((await witness.books.ledger.audit()).faults, `seed ${seed}, round ${round}`).toEqual([]);
      // Where the database is a file of this machine, its end is seen at once.
      if (kind === 'postgres') await letBeatsStop(witness.books);
    }
    gateway = await gatewayProcess(config, database);
    // On a slow machine, every request that began before the kills may fail.
    await until(() => load.bought.some(({ end }) => end === 'answered'));
    await load.stop();
    // Those whose callers left are read to their end.
    await expect.poll(() => witness.openHolds()).toBe(0);
    gateway.kill('SIGTERM');
    expect(await gateway.exit).toEqual({ code: 0, signal: null });

    const rows = await expectHonest(witness, load, { customers, credit, about: `seed ${seed}` });
    // Nothing that was sent to a provider is given away: here every provider answers.
    const released = rows.filter(({ ended }) => ended === 'released');
    expect(released.filter(({ status }) => status !== 499n)).toEqual([]);
    const crashed = rows.filter(({ ended }) => ended === 'crash').length;
    expect(crashed, `seed ${seed}: nothing was under way when it was killed`).toBeGreaterThan(0);
    const ends = Object.fromEntries(
      [...Map.groupBy(load.bought, ({ end }) => end)].map(([end, all]) => [end, all.length]),
    );
    expect(ends['answered'], `seed ${seed}`).toBeGreaterThan(0);
    expect(ends['given up'], `seed ${seed}`).toBeUndefined();
    report({ kind, kills, requests: rows.length, crashed, ...ends, seed });
  });
});
