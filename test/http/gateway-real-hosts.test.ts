import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { describePostgres } from '../support/databases.ts';
import { gatewayProcess, letBeatsStop, writeConfig } from '../support/gateway/gateways.ts';
import { expectHonest, Load } from '../support/gateway/load.ts';
import { customerOf, Witness } from '../support/gateway/world.ts';
import { freshDataDir, startScriptedHost } from '../support/host.ts';
import { randomFrom } from '../support/kills/process.ts';
import { ledgerOn } from '../support/ledger.ts';

/** A whole host without the adapter, in its own process. */
const startHost = (port: string) =>
  startScriptedHost(['--gpu', '--port', port, '--data-dir', freshDataDir()], { pieces: 12, delayMs: 4 });

describePostgres('three gateways before three hosts, each a process', (url) => {
  const undo: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  it('produce no wrong receipt when one of each is killed with -9 under load', async () => {
    const hosts = [1, 2, 3].map(() => startHost('0'));
    undo.push(() => Promise.all(hosts.map((host) => host.end())));
    const urls = await Promise.all(hosts.map((host) => host.url()));
    const config = writeConfig([{ id: 'pool', wire: 'lathe', baseUrls: urls.map((one) => `${one}/v1`) }]);
    const fitted = readFileSync(config, 'utf8')
      .replace('upstream-pool', 'scripted')
      .replace('100_000', '4096')
      .replace('8_000', '512');
    writeFileSync(config, fitted);
    const database = await url();
    const gateways = await Promise.all([1, 2, 3].map(() => gatewayProcess(config, database)));
    undo.push(() => Promise.all(gateways.map((gateway) => gateway.end())));
    const witness = new Witness(await ledgerOn(database));
    undo.push(() => witness.books.close());
    const credit = 10n ** 12n;
    const customers = await Promise.all([1, 2].map(() => customerOf(witness.books, { credit })));

    const [killedGateway, ...others] = gateways;
    const [lost] = hosts;
    if (!killedGateway || !lost) throw new Error('no gateway or host to kill');
    let alive = gateways;
    const total = 120;
    const load = new Load({
      customers,
      random: randomFrom(8),
      gateways: () => alive.map((gateway) => gateway.url),
      choices: [
        ['chat', 'pool'],
        ['completions', 'pool'],
      ],
      leaving: 5,
      attempts: 10_000,
      content: (n) => `Question ${n}.`,
    });
    load.start(12, total);
    const reach = (part: number) => expect.poll(() => load.bought.length).toBeGreaterThan(total * part);
    await reach(0.2);
    lost.kill('SIGKILL');
    await reach(0.4);
    killedGateway.kill('SIGKILL');
    await killedGateway.exit;
    alive = others;
    await reach(0.6);
    const back = startHost(new URL(urls[0] ?? '').port);
    undo.push(() => back.end());
    await letBeatsStop(witness.books, killedGateway.pid);
    await witness.books.ledger.recoverOrphanedHolds();
    await load.over();
    await expect.poll(() => witness.openHolds()).toBe(0);
    await expectHonest(witness, load, { customers, credit, about: 'real hosts' });
    const answered = load.bought.filter(({ end }) => end === 'answered').length;
    expect(answered).toBeGreaterThan(total * 0.8);
    for (const gateway of others) gateway.kill('SIGTERM');
    for (const gateway of others) expect(await gateway.exit).toEqual({ code: 0, signal: null });
    expect(await witness.faults()).toEqual([]);
  });
});
