import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { describePostgres } from '../support/databases.ts';
import { gatewayProcess, letBeatsStop, writeConfig } from '../support/gateway/gateways.ts';
import { expectHonest, Load } from '../support/gateway/load.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { ask, customerOf, Witness } from '../support/gateway/world.ts';
import { wires } from '../support/gateway/asks.ts';
import { randomFrom } from '../support/kills/process.ts';
import { ledgerOn } from '../support/ledger.ts';
import { until } from '../support/until.ts';

/** A host behind a door that can be shut, with all that is under way, and opened again at the same address. */
async function hostBehindDoor(random: (below: number) => number) {
  const host = await fakeProvider(() => ({
    say: { text: 'word '.repeat(random(30)), usage: { input: 5 + random(100), output: 1 + random(60) } },
    delayMs: 5 + random(20),
    frameMs: random(5),
  }));
  const behind = Number(new URL(host.url).port);
  const sockets = new Set<Socket>();
  let server: Server;
  const open = (port: number) =>
    new Promise<void>((resolve) => {
      server = createServer((socket) => {
        const inner = connect(behind, '127.0.0.1');
        for (const one of [socket, inner]) {
          sockets.add(one);
          one
            .on('error', () => undefined)
            .on('close', () => {
              sockets.delete(one);
              socket.destroy();
              inner.destroy();
            });
        }
        socket.pipe(inner).pipe(socket);
      }).listen(port, '127.0.0.1', resolve);
    });
  await open(0);
  const { port } = server!.address() as AddressInfo;
  return {
    host,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    kill() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
    comeBack: () => open(port),
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await host.close();
    },
  };
}

/** As long as a prefix counts, and longer. */
const prefixOf = (n: number) => `Conversation ${n}. ${'It began long ago. '.repeat(80)}`;

describePostgres('three gateways and three hosts', (url) => {
  const undo: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  it('produce no wrong receipt when one of each is killed under load', async () => {
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const hosts = await Promise.all([1, 2, 3].map(() => hostBehindDoor(random)));
    undo.push(() => Promise.all(hosts.map((host) => host.close())));
    const pool = { id: 'pool', wire: 'lathe', baseUrls: hosts.map(({ baseUrl }) => baseUrl) } as const;
    // Hosts that are lost open breakers: what is waited for here is not how long these stay open.
    const config = writeConfig([pool], 'shared = true\nbreaker_secs = 1\n');
    const database = await url();
    const gateways = await Promise.all([1, 2, 3].map(() => gatewayProcess(config, database)));
    undo.push(() => Promise.all(gateways.map((gateway) => gateway.end())));
    const witness = new Witness(await ledgerOn(database));
    undo.push(() => witness.books.close());
    const credit = 10n ** 12n;
    const customers = await Promise.all([1, 2, 3].map(() => customerOf(witness.books, { credit })));

    /** The host that serves each prefix, for requests to any gateway. */
    const homes = async (at: readonly { url: string }[]) => {
      const found: number[] = [];
      for (let prefix = 0; prefix < 9; prefix++) {
        const served = new Set<number>();
        for (const [index, gateway] of at.entries()) {
          const before = hosts.map(({ host }) => host.requests.length);
          const requestBody = wires.chat.body(
            'pool',
            index % 2 === 0,
            `${prefixOf(prefix)} And then ${index}?`,
          );
          const customer = customers[0];
          if (!customer) throw new Error('no customer to send the request');
          const response = await ask(gateway.url, wires.chat.path, { customer, body: requestBody });
          await response.text();
          expect(response.status).toBe(200);
          served.add(hosts.findIndex(({ host }, n) => host.requests.length > (before[n] ?? 0)));
        }
        expect(served.size, `prefix ${prefix} is served by one host`).toBe(1);
        found.push([...served][0] ?? -1);
      }
      return found;
    };
    // A host may seem ill for a while, where the machine is slow.
    let calm: number[] = [];
    await until(async () => {
      calm = await homes(gateways).catch(() => []);
      return calm.length > 0;
    });
    expect(new Set(calm).size, 'prefixes are spread over the hosts').toBeGreaterThan(1);

    const [killedGateway, ...others] = gateways;
    const lost = hosts[calm[0] ?? 0];
    if (!killedGateway || !lost) throw new Error('no gateway or host to kill');
    let alive = gateways;
    const load = new Load({
      customers,
      random,
      gateways: () => alive.map((gateway) => gateway.url),
      choices: [
        ['chat', 'pool'],
        ['responses', 'pool'],
        ['completions', 'pool'],
      ],
      leaving: 5,
      attempts: 600,
      content: (n) => `${prefixOf(n % 9)} And then ${n}?`,
    });
    const total = 450;
    load.start(24, total);
    const reach = (part: number) => expect.poll(() => load.bought.length).toBeGreaterThan(total * part);
    await reach(0.25);
    // While it has a hold: on a busy machine there are moments without one.
    const holdsOfKilled = () =>
      witness.books.store.read((db) =>
        db
          .selectFrom('gateway_holds')
          .innerJoin('gateway_replicas', 'gateway_replicas.id', 'gateway_holds.replica_id')
          .select('request_id')
          .where('gateway_replicas.pid', '=', BigInt(killedGateway.pid ?? 0))
          .execute(),
      );
    const stopWithHold = async () => {
      killedGateway.kill('SIGSTOP');
      const { length } = await holdsOfKilled();
      if (length === 0) killedGateway.kill('SIGCONT');
      return length;
    };
    await expect.poll(stopWithHold, { interval: 10 }).toBeGreaterThan(0);
    killedGateway.kill('SIGKILL');
    await killedGateway.exit;
    // For a while callers still send requests to it, although it is gone.
    await reach(0.4);
    alive = others;
    lost.kill();
    await reach(0.6);
    expect((await witness.books.ledger.audit()).faults).toEqual([]);
    await lost.comeBack();
    await letBeatsStop(witness.books, killedGateway.pid);
    await witness.books.ledger.recoverOrphanedHolds();
    await load.over();
    await expect.poll(() => witness.openHolds()).toBe(0);

    const rows = await expectHonest(witness, load, { customers, credit, about: `seed ${seed}` });
    const crashed = rows.filter(({ ended }) => ended === 'crash');
    expect(crashed.length, `seed ${seed}`).toBeGreaterThan(0);
    expect(new Set(crashed.map(({ replica_id }) => replica_id)).size, 'only one gateway died').toBe(1);
    const answered = load.bought.filter(({ end }) => end === 'answered').length;
    expect(answered, `seed ${seed}`).toBeGreaterThan(total * 0.8);

    // Its prefixes are its own again, at each of the gateways that are left.
    await expect.poll(() => homes(others).catch(() => []), { interval: 500 }).toEqual(calm);
    for (const gateway of others) gateway.kill('SIGTERM');
    for (const gateway of others) expect(await gateway.exit).toEqual({ code: 0, signal: null });
    expect(await witness.faults()).toEqual([]);
  });
});
