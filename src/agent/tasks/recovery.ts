import type { EventLog } from '../event-log.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Spent } from '../services.ts';
import { endTask, type EndingServices, type LastEvent } from './ending.ts';
import { storedEvents } from './stored-events.ts';

const aborted: LastEvent = {
  type: 'aborted',
  reason: 'error',
  message: 'The host ended during this task. Start it again if you still need it.',
};

/** Ids of tasks that the previous process of this host left running. */
export async function tasksLeft({ store }: EndingServices): Promise<string[]> {
  const rows = await store.read((db) =>
    db
      .selectFrom('tasks')
      .select('id')
      .where('state', '=', 'running')
      .where('endpoint_id', '=', store.endpointId)
      .orderBy('n')
      .execute(),
  );
  return rows.map(({ id }) => id);
}

/** Ends one orphaned task. */
export async function endLeft(
  services: EndingServices & { readonly log: EventLog },
  id: string,
): Promise<void> {
  const { store, log } = services;
  const spent = await spentSoFar(storedEvents(store, id));
  await store.transaction(async (tx) => {
    await log.insert(tx, id, await log.nextSeq(tx, id), aborted);
    await endTask(services, tx, id, aborted, spent);
  });
}

/** Totals of a stream's events. The usage is known only when every turn reported it. */
async function spentSoFar(events: AsyncIterable<NewTurnEvent>): Promise<Spent> {
  let turns = 0;
  let told = 0;
  const sum = { prompt_tokens: 0, completion_tokens: 0 };
  for await (const event of events) {
    if (event.type === 'turn') turns += 1;
    if (event.type !== 'usage') continue;
    told += 1;
    sum.prompt_tokens += event.prompt_tokens;
    sum.completion_tokens += event.completion_tokens;
  }
  return { turns, ...(turns > 0 && told === turns ? { usage: sum } : {}) };
}
