import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openSessionPlane } from '../support/session-plane.ts';

// Where the PostgreSQL server has to be started first.
const freshSqlite = () => `sqlite:${join(freshDataDir(), 'lathe.db')}`;

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});
async function plane(...given: Parameters<typeof openSessionPlane>) {
  const made = await openSessionPlane(...given);
  open.push(made);
  return made;
}
type Plane = Awaited<ReturnType<typeof plane>>;

/** Time passes, and it is looked every second, as the timer does. */
async function pass({ clock, external }: Plane, ms: number) {
  for (let left = ms; left > 0; left -= 1000) {
    clock.pass(Math.min(1000, left));
    await external.sweep();
  }
}
const register = ({ external }: Plane) => external.register({ harness: 'h' }, 'local');

describeDatabases('an external session', (url) => {
  test('is stale when two heartbeats are missing, and lost when four are, with a receipt, an act and a signal', async () => {
    const host = await plane({ url: await url() });
    const { id } = await register(host);
    await pass(host, 29_000);
    expect(await host.external.live()).toMatchObject([{ id, state: 'running', stale: false }]);
    await pass(host, 1000);
    expect(await host.external.live()).toMatchObject([{ id, stale: true }]);
    await pass(host, 29_000);
    expect(await host.external.live()).toMatchObject([{ id, stale: true }]);
    await expect(host.receipts.get(id)).rejects.toMatchObject({ kind: 'not_found' });
    await pass(host, 1000);
    expect(await host.external.live()).toEqual([]);
    expect(await host.receipts.get(id)).toMatchObject({
      kind: 'external',
      outcome: 'failed',
      close_reason: 'heartbeat_lost',
      harness: 'h',
    });
    expect((await host.acts()).map(({ verb, by }) => [verb, by])).toEqual([
      ['session.register', 'local'],
      ['session.lost', 'host'],
    ]);
    const signals = await host.store.read((db) => db.selectFrom('signals').select('name').execute());
    expect(signals).toEqual([{ name: 'session.lost' }]);
    await expect(host.external.heartbeat(id, {})).rejects.toMatchObject({ kind: 'not_found' });
  });

  test('has all its time again after a restart, and only the host that it belongs to watches it', async () => {
    const where = await url();
    const clock = new ManualClock();
    const first = await plane({ url: where, clock });
    const { id, secret } = await register(first);
    await pass(first, 50_000);
    const again = await plane({ url: where, clock });
    const other = await plane({ url: where, clock, endpointId: 'e1' });
    await again.external.start();
    await other.external.start();
    expect(await other.external.live()).toEqual([]);
    await pass(again, 59_000);
    await other.external.sweep();
    expect(await again.external.live()).toMatchObject([{ id, stale: true }]);
    await again.external.authorize(id, secret, 'conflict');
    await expect(other.external.authorize(id, secret, 'conflict')).rejects.toMatchObject({
      kind: 'not_found',
    });
    await again.external.heartbeat(id, {});
    expect(await again.external.live()).toMatchObject([{ id, stale: false }]);
    await pass(again, 60_000);
    expect(await again.external.live()).toEqual([]);
  });

  test('two that register at once with one key become one, and the cap holds among many at once', async () => {
    const host = await plane({ url: await url(), maxSessions: 5 });
    const same = await Promise.all(
      [1, 2].map(() => host.external.register({ harness: 'h', idempotency_key: 'k' }, 'local')),
    );
    expect(new Set(same.map(({ id }) => id)).size).toBe(1);
    expect(await host.external.live()).toHaveLength(1);
    const many = await Promise.allSettled(Array.from({ length: 12 }, () => register(host)));
    expect(many.filter(({ status }) => status === 'fulfilled')).toHaveLength(4);
    expect(await host.external.live()).toHaveLength(5);
  });
});

test('a heartbeat that comes while its session is being closed keeps it', async () => {
  const host = await plane({ url: freshSqlite() });
  const { id } = await register(host);
  host.clock.pass(1000);
  for (let second = 1; second < 60; second += 1) {
    await host.external.sweep();
    host.clock.pass(1000);
  }
  const [, beat] = await Promise.allSettled([host.external.sweep(), host.external.heartbeat(id, {})]);
  expect(beat.status).toBe('fulfilled');
  expect(await host.external.live()).toMatchObject([{ id, stale: false }]);
  expect(host.faults).toEqual([]);
});

test('time in which the host itself did not run counts against no session', async () => {
  const host = await plane({ url: freshSqlite() });
  const { id } = await register(host);
  await pass(host, 10_000);
  host.clock.pass(600_000);
  await host.external.sweep();
  expect(await host.external.live()).toMatchObject([{ id, stale: false }]);
  await pass(host, 50_000);
  expect(await host.external.live()).toEqual([]);
});

test('a database that fails keeps the session for the next look', async () => {
  const host = await plane({ url: freshSqlite() });
  const { id } = await register(host);
  const fails = vi.spyOn(host.receipts, 'add').mockRejectedValue(new Error('the disk is full'));
  await pass(host, 61_000);
  expect(host.faults.length).toBeGreaterThan(0);
  expect(await host.external.live()).toMatchObject([{ id, stale: true }]);
  fails.mockRestore();
  await pass(host, 1000);
  expect(await host.external.live()).toEqual([]);
  expect(await host.receipts.get(id)).toMatchObject({ close_reason: 'heartbeat_lost' });
});

describe('whatever happens', () => {
  const step = fc.oneof(
    fc.record({ act: fc.constant('pass' as const), secs: fc.integer({ min: 1, max: 40 }) }),
    fc.record({
      act: fc.constant('jump' as const),
      secs: fc.integer({ min: -10_000_000, max: 10_000_000 }),
    }),
    fc.record({ act: fc.constantFrom('beat' as const, 'end' as const), which: fc.nat(3) }),
    fc.record({ act: fc.constant('restart' as const) }),
  );

  test('sessions live exactly as long as they beat, however the wall clock is set', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const url = freshSqlite();
        const clock = new ManualClock();
        let host = await openSessionPlane({ url, clock });
        // What each must be: seconds of silence, or over.
        const ids: string[] = [];
        const silent: (number | undefined)[] = [0, 0, 0, 0];
        for (const _ of silent) ids.push((await host.external.register({ harness: 'h' }, 'local')).id);
        for (const one of steps) {
          if (one.act === 'jump') clock.jump(one.secs * 1000);
          else if (one.act === 'pass') {
            for (let second = 0; second < one.secs; second += 1) {
              clock.pass(1000);
              await host.external.sweep();
            }
            for (const [index, before] of silent.entries())
              if (before !== undefined)
                silent[index] = before + one.secs >= 60 ? undefined : before + one.secs;
          } else if (one.act === 'restart') {
            await host.close();
            host = await openSessionPlane({ url, clock });
            await host.external.start();
            for (const [index, before] of silent.entries()) if (before !== undefined) silent[index] = 0;
          } else {
            const id = ids[one.which] ?? '';
            const work =
              one.act === 'beat'
                ? host.external.heartbeat(id, {})
                : host.external.end(id, { outcome: 'completed' });
            const done = await work.then(
              () => true,
              () => false,
            );
            expect(done).toBe(silent[one.which] !== undefined);
            if (done) silent[one.which] = one.act === 'beat' ? 0 : undefined;
          }
          const live = await host.external.live();
          const expected = ids.filter((_, index) => silent[index] !== undefined);
          expect(live.map(({ id }) => id).sort()).toEqual([...expected].sort());
          for (const { id, stale } of live) expect(stale).toBe((silent[ids.indexOf(id)] ?? 0) >= 30);
        }
        // Every ended request has exactly one receipt, and no other has one.
        const receipts = await host.store.read((db) => db.selectFrom('receipts').select('id').execute());
        const over = ids.filter((_, index) => silent[index] === undefined);
        expect(receipts.map(({ id }) => id).sort()).toEqual(over.sort());
        expect(host.faults).toEqual([]);
        await host.close();
      }),
      { numRuns: 25 },
    );
  });
});
