import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { wires } from '../support/gateway/asks.ts';
import { gatewayWorld, nanoOf } from '../support/gateway/world.ts';
import { postgresPrograms, startPostgres } from '../support/postgres-server.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';
import { until } from '../support/until.ts';
import { everyNth } from '../support/tier.ts';

/** A database that can be taken away and given back. */
interface Frail {
  readonly database: string;
  readonly breaks: () => Promise<void>;
  readonly mends: () => Promise<void>;
  readonly remove: () => Promise<void>;
}

function onSmallDisk(): Promise<Frail> {
  const disk = smallDisk('4m');
  return Promise.resolve({
    database: `sqlite:${join(disk.folder, 'gateway.db')}`,
    breaks: async () => disk.fill(),
    mends: async () => disk.makeRoom(),
    remove: async () => disk.remove(),
  });
}

async function onPostgres(): Promise<Frail> {
  const server = await startPostgres();
  const at = (name: string) => `postgres:///${name}?host=${server.folder}&user=lathe`;
  const client = new pg.Client({ connectionString: at('postgres') });
  await client.connect();
  await client.query('create database gateways');
  await client.end();
  return {
    database: at('gateways'),
    breaks: () => server.halt('SIGQUIT'),
    mends: () => server.startAgain(),
    remove: () => server.stop(),
  };
}

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

describe.each(
  everyNth(
    [
      ['a full disk', noDisks(), onSmallDisk],
      [
        'PostgreSQL away',
        postgresPrograms() === undefined ? 'PostgreSQL is not installed' : undefined,
        onPostgres,
      ],
    ] as const,
    2,
  ),
)('a gateway with %s', (_, reason, open) => {
  it.skipIf(reason !== undefined)(
    `refuses clearly, loses no money, and goes on by itself${reason ? `: skipped, ${reason}` : ''}`,
    async () => {
      const faultyDatabase = await open();
      undo.push(faultyDatabase.remove);
      const world = await gatewayWorld({ database: faultyDatabase.database });
      undo.push(() => world.close());
      const { provider, witness, ask } = world;
      const { path, body } = wires.chat;
      const someone = await world.customer();
      const money = async () => (await witness.books.ledger.balance(someone.accountId)).remaining;
      const begin = await money();
      const say = { text: 'One two three four five six.', usage: { input: 11, output: 7 } };

      // Three at once in the middle: one in one piece, one that streams, one whose caller leaves.
      let reached = 0;
      const [all, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const here = () => {
        reached += 1;
        if (reached === 3) all.resolve();
        return goOn.promise;
      };
      provider.script(async ({ stream }) => {
        if (!stream) await here();
        return { say, hold: (frame) => (frame === 3 ? here() : undefined) };
      });
      const whole = ask(path, {
        customer: someone,
        body: body('chat', false),
        headers: { 'idempotency-key': 'whole' },
      });
      const streamed = ask(path, {
        customer: someone,
        body: body('chat', true),
        headers: { 'idempotency-key': 'streamed' },
      }).then((response) => response.text());
      const leaving = new AbortController();
      const leaver = await world.customer();
      ask(path, { customer: leaver, body: body('chat', true), signal: leaving.signal })
        .then((response) => response.text())
        .catch(() => undefined);
      await all.promise;
      leaving.abort();
      // The gateway notices the disconnect only when the connection is closed on its side.
      await until(() => world.left() === 1);
      await faultyDatabase.breaks();
      goOn.resolve();

      const refused = await whole;
      const { error } = (await refused.json()) as { error: Record<string, string> };
      expect(refused.status).toBe(503);
      expect(refused.headers.get('x-svc-cost-nanousd')).toBe('0');
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(error).toMatchObject({
        type: 'server_error',
        code: expect.stringMatching(/^storage_/) as string,
      });
      const text = await streamed;
      expect(text).toContain('One two');
      expect(text).toMatch(/data: \{"error":\{.*"code":"storage_/);
      expect(text).not.toContain('[DONE]');

      const before = provider.requests.length;
      const next = await ask(path, { customer: someone, body: body('chat', false) });
      expect(next.status).toBe(503);
      await next.text();
      expect(provider.requests.length, 'nothing is asked that cannot be paid').toBe(before);

      await faultyDatabase.mends();
      provider.script([{ say }]);
      // The two that were refused cost nothing and may be asked again; the one that left is paid.
      await expect.poll(() => witness.openHolds().catch(() => -1), { interval: 100 }).toBe(0);
      expect(await money()).toBe(begin);
      expect(await witness.rowOf(leaver)).toMatchObject({ ended: 'settled', outcome: 'client_gone' });
      const cost = nanoOf({ fresh: 11, output: 7 });
      for (const [key, stream] of [
        ['whole', false],
        ['streamed', true],
      ] as const) {
        const headers = { 'idempotency-key': key };
        const again = await ask(path, { customer: someone, body: body('chat', stream), headers });
        expect(again.status, await again.clone().text()).toBe(200);
        await again.text();
        await witness.row(again.headers.get('x-svc-request-id') ?? '');
      }
      expect(begin - (await money())).toBe(2n * cost);
      expect(await witness.faults()).toEqual([]);
    },
  );
});
