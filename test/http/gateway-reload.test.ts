import { readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { describePostgres, freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { type GatewayProcess, gatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { ask, customerOf, nanoOf, otherRates, soldAt, Witness } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';
import { readPrometheus } from '../support/prometheus.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const say = { text: 'An answer.', usage: { input: 1000, output: 500 } };
const { path, body } = wires.chat;

/** Catalogs of one provider as files, and gateways that serve them. */
async function world(database = freshSqlite()) {
  const provider = await fakeProvider([{ say }]);
  undo.push(() => provider.close());
  const [chat, other] = soldAt(provider) as [ReturnType<typeof soldAt>[0], ReturnType<typeof soldAt>[0]];
  const cheap = writeConfig([chat]);
  const dear = writeConfig([{ ...chat, card: otherRates }, other]);
  const start = async (config: string) => {
    const gateway = await gatewayProcess(config, database, ['--admin-port', '0']);
    undo.push(() => gateway.end());
    return gateway;
  };
  const witness = new Witness(await ledgerOn(database));
  undo.push(() => witness.books.close());
  const customer = await customerOf(witness.books);
  const asking = (gateway: GatewayProcess, model = 'chat', stream = false) =>
    ask(gateway.url, path, { customer, body: body(model, stream) });
  const costOf = async (response: Response) => {
    await response.text();
    return (await witness.row(response.headers.get('x-svc-request-id') ?? '')).cost;
  };
  return { provider, cheap, dear, start, asking, costOf };
}

const metricOf = async (gateway: GatewayProcess, name: string, outcome?: string) => {
  const [, url = ''] = /metrics on (\S+)/.exec(gateway.output.stdout) ?? [];
  const family = readPrometheus(await (await fetch(url)).text()).get(name);
  return family?.samples.find(({ labels }) => labels['outcome'] === outcome)?.value;
};
const costs = { fresh: 1000, output: 500 };
const limit = { timeout: 30_000 };

describe('a gateway whose configuration changes', () => {
  it('replaces it at a signal; a request under way ends at the prices it began with', async () => {
    const { provider, cheap, dear, start, asking, costOf } = await world();
    const gateway = await start(cheap);
    const held = Promise.withResolvers<void>();
    provider.script([{ say, hold: () => held.promise }]);
    const streamed = asking(gateway, 'chat', true);
    await expect.poll(() => provider.open).toBe(1);
    expect((await asking(gateway, 'chat-other')).status).toBe(404);
    writeFileSync(cheap, readFileSync(dear));
    gateway.kill('SIGUSR2');
    await gateway.waitFor(
      'stderr',
      /version 2 of the configuration is in force: 2 models of 2 providers; providers: new at-chat-other; models: new chat-other, changed chat\n/,
    );
    provider.script([{ say }]);
    expect(await costOf(await asking(gateway))).toBe(nanoOf(costs, otherRates));
    expect(await costOf(await asking(gateway, 'chat-other'))).toBe(nanoOf(costs, otherRates));
    held.resolve();
    expect(await costOf(await streamed)).toBe(nanoOf(costs));
    expect(await metricOf(gateway, 'lathe_gateway_config_version')).toBe(2);
    expect(await metricOf(gateway, 'lathe_gateway_config_reloads_total', 'replaced')).toBe(1);
  });

  it('keeps it where the new one has a fault, and names all of them', async () => {
    const { cheap, start, asking } = await world();
    const gateway = await start(cheap);
    const sound = readFileSync(cheap, 'utf8');
    writeFileSync(cheap, sound.replace('wire = "openai-chat"', 'wire = "opanai"').replace('100_000', '-1'));
    gateway.kill('SIGUSR2');
    await gateway.waitFor(
      'stderr',
      /stays at version 1, because the new one cannot be used: .*gateway.toml:\d+: .*wire.*; .*context_window/,
    );
    expect((await asking(gateway)).status).toBe(200);
    writeFileSync(cheap, sound.replace('[limits]', '[limits]\nshared = true\nmax_body_bytes = 1000000'));
    gateway.kill('SIGUSR2');
    await gateway.waitFor(
      'stderr',
      /limits.shared changes only with a restart; limits.max_body_bytes changes only with a restart/,
    );
    expect(await metricOf(gateway, 'lathe_gateway_config_refused')).toBe(1);
    rmSync(cheap);
    gateway.kill('SIGUSR2');
    await gateway.waitFor('stderr', /there is no such file/);
    writeFileSync(cheap, `# The same.\n${sound}`);
    gateway.kill('SIGUSR2');
    await gateway.waitFor('stderr', /has not changed/);
    expect((await asking(gateway)).status).toBe(200);
    expect(await metricOf(gateway, 'lathe_gateway_config_refused')).toBe(0);
    expect(await metricOf(gateway, 'lathe_gateway_config_reloads_total', 'refused')).toBe(3);
    expect(await metricOf(gateway, 'lathe_gateway_config_version')).toBe(1);
  });

  it('serves on while its file is being written, and reports by itself what it cannot use', async () => {
    const { cheap, start, asking } = await world();
    const gateway = await start(cheap);
    const sound = readFileSync(cheap, 'utf8');
    writeFileSync(cheap, '');
    gateway.kill('SIGUSR2');
    await gateway.waitFor(
      'stderr',
      /stays at version 1, because the new one cannot be used: it has no models/,
    );
    expect((await asking(gateway)).status).toBe(200);
    writeFileSync(cheap, sound.replace('[limits]', '[limits]\nshared = true'));
    await gateway.waitFor('stderr', /cannot be used: limits.shared changes only with a restart/);
    expect(await metricOf(gateway, 'lathe_gateway_config_reloads_total', 'refused')).toBe(2);
    expect((await asking(gateway)).status).toBe(200);
  });

  it('counts a request once while it is under way', async () => {
    const { provider, cheap, start, asking } = await world();
    const gateway = await start(cheap);
    provider.script([{ say, delayMs: 1500 }]);
    const inFlight = () => metricOf(gateway, 'lathe_gateway_requests_in_flight');
    for (const stream of [false, true]) {
      const answer = asking(gateway, 'chat', stream);
      await expect.poll(inFlight).toBeGreaterThanOrEqual(1);
      expect(await inFlight()).toBe(1);
      await (await answer).text();
      await expect.poll(inFlight).toBe(0);
    }
  });

  it('sees by itself that its file was replaced behind a symbolic link, and applies new limits', async () => {
    const { cheap, dear, start, asking } = await world();
    const link = `${cheap}.link`;
    symlinkSync(cheap, link);
    const gateway = await start(link);
    expect((await asking(gateway)).status).toBe(200);
    writeFileSync(
      dear,
      readFileSync(dear, 'utf8').replace('requests_per_minute = 1_000_000', 'requests_per_minute = 1'),
    );
    symlinkSync(dear, `${link}.new`);
    renameSync(`${link}.new`, link);
    await gateway.waitFor('stderr', /version 2 .*limits\n/);
    const [first, second] = [await asking(gateway, 'chat-other'), await asking(gateway, 'chat-other')];
    expect([first.status, second.status]).toContain(429);
  });
});

describePostgres('two gateways of a database', (freshPostgres) => {
  it('agree on the version, and say where their files differ', async () => {
    const { cheap, dear, start, asking } = await world(await freshPostgres());
    const copy = `${cheap}.copy`;
    writeFileSync(copy, readFileSync(cheap));
    const [one, two] = [await start(cheap), await start(copy)];
    for (const gateway of [one, two]) expect(await metricOf(gateway, 'lathe_gateway_config_version')).toBe(1);
    writeFileSync(cheap, readFileSync(dear));
    one.kill('SIGUSR2');
    await one.waitFor('stderr', /version 2 /);
    await two.waitFor(
      'stderr',
      /another gateway of this database serves version 2 .* give both the same file/,
    );
    expect(await metricOf(two, 'lathe_gateway_config_newest')).toBe(0);
    expect((await asking(two, 'chat-other')).status).toBe(404);
    // A reload on request makes this one's file the newest version.
    two.kill('SIGUSR2');
    await two.waitFor('stderr', /has not changed/);
    expect(await metricOf(two, 'lathe_gateway_config_newest')).toBe(1);
    await one.waitFor('stderr', /another gateway of this database serves version 3 /);
    one.kill('SIGUSR2');
    await two.waitFor('stderr', /serves version 4 /);
    writeFileSync(copy, readFileSync(dear));
    await expect.poll(() => metricOf(two, 'lathe_gateway_config_newest'), limit).toBe(1);
    for (const gateway of [one, two]) expect(await metricOf(gateway, 'lathe_gateway_config_version')).toBe(4);
    expect((await asking(two, 'chat-other')).status).toBe(200);
  });
});
