/**
 * A process that acts on a store until it is killed: `store-acts.ts URL ENDPOINT NAME`. Writes `open`, then `middle` in
 * the middle of each act and `done <task> <name>` when it was acknowledged.
 */
import { writeSync } from 'node:fs';
import { Store } from '../../../src/store/index.ts';

const [url = '', endpointId = '', name = ''] = process.argv.slice(2);
const say = (line: string) => writeSync(1, `${line}\n`);
const store = await Store.open({ url, endpointId });
say('open');

/** Rows in five tables that belong together. */
async function act(agent: string): Promise<string> {
  return await store.transaction(async (tx) => {
    const n = await store.nextNumber(tx, 'task');
    const id = `t${n}`;
    const at = store.time();
    const nothing = { request: '{}', engine: 'gateway', model: 'none', turns: 1 } as const;
    await tx
      .insertInto('tasks')
      .values({
        ...nothing,
        id,
        n,
        endpoint_id: endpointId,
        agent,
        title: '',
        state: 'completed',
        started_at: at,
      })
      .execute();
    await store.appendAct(tx, { verb: 'agent.create', target: agent, by: 'operator', outcome: 'applied' });
    const events = [0, 1, 2].map((seq) => ({ stream: id, seq, ts: at, event: 'x'.repeat(3000) }));
    await tx.insertInto('events').values(events.slice(0, 2)).execute();
    say('middle');
    if (Math.random() < 0.5) await new Promise((resolve) => setTimeout(resolve, 3));
    await tx.insertInto('events').values(events.slice(2)).execute();
    const last = await tx
      .selectFrom('receipts')
      .select(['seq', 'digest'])
      .where('endpoint_id', '=', endpointId)
      .orderBy('seq', 'desc')
      .limit(1)
      .executeTakeFirst();
    const seq = (last?.seq ?? 0) + 1;
    const chained = { seq, prev_digest: last?.digest ?? '', digest: `digest of ${id}` };
    await tx
      .insertInto('receipts')
      .values({ ...chained, endpoint_id: endpointId, id, kind: 'task', ended_at: at, receipt: '{}' })
      .execute();
    return id;
  });
}

async function loop(which: number): Promise<never> {
  for (let index = 0; ; index++) {
    const agent = `${name}.${which}.${index}`;
    say(`done ${await act(agent)} ${agent}`);
  }
}
await Promise.all([0, 1, 2].map(loop));
