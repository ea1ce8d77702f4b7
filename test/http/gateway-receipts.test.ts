import { afterAll, expect, it } from 'vitest';
import { pairs } from '../support/gateway/asks.ts';
import { expectHonest, Load } from '../support/gateway/load.ts';
import type { ProviderReply } from '../support/gateway/provider.ts';
import { gatewayWorld } from '../support/gateway/world.ts';
import { describeDatabases } from '../support/databases.ts';
import { randomFrom } from '../support/kills/process.ts';
import { rounds } from '../support/tier.ts';

const soon = { 'retry-after-ms': '1' };

/** Mostly well, and otherwise ill in every way. */
function anyReply(random: (below: number) => number): ProviderReply {
  const input = 1 + random(500);
  const cacheRead = random(3) === 0 ? random(input) : 0;
  const usage = {
    input,
    cacheRead,
    output: random(300),
    cacheWrite: random(3) === 0 ? random(input - cacheRead) : 0,
  };
  const usageAt = (['usual', 'twice', 'late', 'finish', 'always', 'missing'] as const)[random(6)] ?? 'usual';
  const say = { text: 'word '.repeat(1 + random(30)), usage, ...(random(3) === 0 ? { usageAt } : {}) };
  switch (random(25)) {
    case 0:
      return { status: [429, 500, 503, 529][random(4)] ?? 500, headers: soon };
    case 1:
      return { refuse: true };
    case 2:
      return { say, cutAfter: random(8) };
    case 3:
      return { say, endAfter: random(8) };
    case 4:
      return { status: 400, message: 'I will not.' };
    case 5:
      return { say, split: random(1000) };
    case 6:
      return { say, crlf: true, gzip: true };
    case 7:
      return { say, extra: 'data: {"error":{"message":"Overloaded","type":"server_error"}}\n\n' };
    case 8:
      return { raw: { body: 'data: nonsense\n\n' } };
    default:
      return { say, delayMs: random(10), frameMs: random(20) === 0 ? random(10) : 0 };
  }
}

describeDatabases('thousands of random requests on all wires', (url, kind) => {
  const total = Number(process.env['LATHE_TEST_REQUESTS'] ?? (kind === 'sqlite' ? rounds(600, 250) : 250));
  const undo: (() => Promise<unknown>)[] = [];
  afterAll(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  it('have receipts that match the ledger to the nanodollar', { timeout: 600_000 + total * 50 }, async () => {
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const world = await gatewayWorld({
      database: await url(),
      fallbacks: new Map([['chat', ['chat-other']]]),
      limits: { drainSecs: 2, drainIdleSecs: 1 },
    });
    undo.push(() => world.close());
    const { provider, witness } = world;
    provider.script(() => anyReply(random));
    const credit = 10n ** 12n;
    const customers = await Promise.all([1, 2, 3].map(() => world.customer({ credit })));
    const load = new Load({
      customers,
      random,
      gateways: () => [world.url],
      choices: [...pairs, ['embeddings', 'chat'], ['embeddings', 'gemini']],
      leaving: 6,
      attempts: 20,
      refusals: /I will not/,
    });
    load.start(24, total);
    await load.over();
    await expect.poll(() => witness.openHolds()).toBe(0);
    const rows = await expectHonest(witness, load, { customers, credit, about: `seed ${seed}` });

    const paidUnder = new Map(
      rows.filter(({ charged }) => charged > 0n).map((row) => [row.idempotency_key, row]),
    );
    // The ledger has the cost of streams that do not state it and of callers that disconnected.
    const seen = load.bought.reduce(
      (sum, { key, cost }) => sum + (cost ?? paidUnder.get(key)?.charged ?? 0n),
      0n,
    );
    expect(seen, `seed ${seed}`).toBe(rows.reduce((sum, { charged }) => sum + charged, 0n));
    const ends = Map.groupBy(load.bought, ({ end }) => end);
    expect(ends.get('answered')?.length, `seed ${seed}`).toBeGreaterThan(total / 2);
    expect(world.faults, `seed ${seed}`).toEqual([]);
  });
});
