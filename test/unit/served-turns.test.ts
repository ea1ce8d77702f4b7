import { expect, test } from 'vitest';
import { listRecentTurns } from '../../src/agent/sessions/served-sessions.ts';
import { describeDatabases } from '../support/databases.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { journal, openSessionPlane } from '../support/session-plane.ts';

describeDatabases('served turns', (url) => {
  test('those that ended are held for ten minutes, those at work for as long as they are', async () => {
    const clock = new ManualClock();
    const plane = await openSessionPlane({ url: await url(), clock });
    const ended = clock.now().toISOString();
    await journal(plane.store, [
      { id: 't1', state: 'completed', at: ended },
      { id: 't2', state: 'running', at: ended },
      { id: 'r3', state: 'suspended', at: ended },
      { id: 'r4', state: 'cancelled', at: ended },
    ]);
    const shown = async () =>
      (await listRecentTurns(plane.store, { cancelledState: true })).map(({ id }) => id).toSorted();
    clock.pass(600_000);
    expect(await shown()).toEqual(['r3', 'r4', 't1', 't2']);
    clock.pass(1);
    expect(await shown()).toEqual(['r3', 't2']);
    await plane.close();
  });

  test('cancelled runs are shown as failed when the host is configured so', async () => {
    const plane = await openSessionPlane({ url: await url() });
    await journal(plane.store, [{ id: 'r4', state: 'cancelled', at: plane.clock.now().toISOString() }]);
    const states = async (cancelledState: boolean) =>
      (await listRecentTurns(plane.store, { cancelledState })).map(({ state }) => state);
    expect(await states(true)).toEqual(['cancelled']);
    expect(await states(false)).toEqual(['failed']);
    await plane.close();
  });

  test('the newest 200, newest first, tasks and runs together', async () => {
    const plane = await openSessionPlane({ url: await url() });
    const at = (n: number) => new Date(plane.clock.now().getTime() - 500_000 + n).toISOString();
    const many = Array.from({ length: 450 }, (_, n) => ({
      id: `${n % 3 === 0 ? 'r' : 't'}${1000 + n}`,
      state: n % 5 === 0 ? 'running' : 'completed',
      at: at(n),
    }));
    await journal(plane.store, many);
    const shown = (await listRecentTurns(plane.store, { cancelledState: true })).map(({ id }) => id);
    expect(shown).toEqual(
      many
        .slice(-200)
        .map(({ id }) => id)
        .toReversed(),
    );
    await plane.close();
  });
});
