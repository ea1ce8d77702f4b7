import { spawn } from 'node:child_process';
import { expect, it } from 'vitest';
import { Store } from '../../src/store/index.ts';
import { describeStores } from '../support/databases.ts';
import { killCount, killsOn, linesOf, pause, randomFrom, report } from '../support/kills/process.ts';
import { rounds } from '../support/tier.ts';
import { supportProgram } from '../support/host.ts';

const program = supportProgram('kills/store-acts');
const kills = killCount(rounds(8, 3));
/** In which part of its life a process is killed. */
const moments = ['acknowledged', 'transaction', 'anywhere', 'starting'] as const;

describeStores('a process that is killed while it writes', (url, kind) => {
  it.runIf(killsOn(kind))(`${kills} times`, { timeout: 600_000 + kills * 5_000 }, async () => {
    const at = await url();
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const acknowledged = new Map<string, string>();
    const killed = { starting: 0, transaction: 0, anywhere: 0, acknowledged: 0 };
    for (let round = 0; round < kills; round++) {
      const child = spawn(process.execPath, [program, at, `host${round % 2}`, `r${round}`], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const out = linesOf(child);
      const moment = moments[round % moments.length] ?? 'anywhere';
      if (moment === 'starting') await pause(random(400));
      else {
        expect(await out.sees(/^open$/), `seed ${seed}: ${out.stderr()}`).toBe(true);
        if (moment === 'anywhere') await pause(random(300));
        else await out.sees(moment === 'transaction' ? /^middle$/ : /^done/);
      }
      child.kill('SIGKILL');
      await out.ended;
      expect(out.stderr(), `seed ${seed}`).toBe('');
      if (moment === 'transaction' && out.lines.at(-1) === 'middle') killed.transaction++;
      else killed[moment === 'transaction' ? 'anywhere' : moment]++;
      for (const line of out.lines) {
        const [, id, agent] = /^done (t\d+) (\S+)$/.exec(line) ?? [];
        if (id === undefined || agent === undefined) continue;
        expect(acknowledged.has(id), `seed ${seed}: ${id} was given out before`).toBe(false);
        acknowledged.set(id, agent);
      }
      await expectWhole(at, acknowledged, `seed ${seed}, round ${round} (${moment})`);
    }
    expect(acknowledged.size).toBeGreaterThan(0);
    if (kills >= 12) expect(killed.transaction).toBeGreaterThan(0);
    report({ kind, killed, acknowledged: acknowledged.size, seed });
  });
});

/** Everything acknowledged is there, and of every act all or nothing. */
async function expectWhole(url: string, acknowledged: ReadonlyMap<string, string>, message: string) {
  const store = await Store.open({ url, endpointId: 'checker' });
  const { tasks, acts, events, receipts } = await store.transaction(async (tx) => ({
    tasks: await tx.selectFrom('tasks').select(['id', 'n', 'agent']).orderBy('n').execute(),
    acts: await tx.selectFrom('acts').select(['seq', 'target']).orderBy('seq').execute(),
    events: await tx
      .selectFrom('events')
      .select(['stream', 'seq'])
      .orderBy('stream')
      .orderBy('seq')
      .execute(),
    receipts: await tx
      .selectFrom('receipts')
      .select(['id', 'seq', 'endpoint_id', 'prev_digest', 'digest'])
      .orderBy('seq')
      .execute(),
  }));
  await store.close();
  const agents = new Map(tasks.map((task) => [task.id, task.agent]));
  for (const [id, agent] of acknowledged)
    expect(agents.get(id), `${message}: ${id} was acknowledged`).toBe(agent);
  expect(
    tasks.map((task) => task.n),
    message,
  ).toEqual(tasks.map((_, index) => index + 1));
  expect(acts, message).toEqual(tasks.map(({ agent }, index) => ({ seq: index + 1, target: agent })));
  const streams = tasks.map((task) => task.id).sort();
  expect(events, message).toEqual(streams.flatMap((stream) => [0, 1, 2].map((seq) => ({ stream, seq }))));
  expect(receipts.map((receipt) => receipt.id).sort(), message).toEqual(streams);
  for (const host of ['host0', 'host1']) {
    const chain = receipts.filter((receipt) => receipt.endpoint_id === host);
    expect(
      chain.map(({ seq, prev_digest }) => ({ seq, prev_digest })),
      message,
    ).toEqual(chain.map((_, index) => ({ seq: index + 1, prev_digest: chain[index - 1]?.digest ?? '' })));
  }
}
