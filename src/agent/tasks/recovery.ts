import type { EventLog } from '../event-log.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { Spent } from '../services.ts';
import { endTask, type EndingServices, type LastEvent } from './ending.ts';
import { storedEvents } from './stored-events.ts';

const aborted: LastEvent = {
  type: 'aborted',
  reason: 'error',
  message: 'The host ended in the middle of this task. Start it again if it is still wanted.',
};

/** Ends the tasks that a host before this one left behind. Returns how many there were. */
export async function recoverTasks(services: EndingServices & { readonly log: EventLog }): Promise<number> {
  const { store, log } = services;
  const left = await store.read((db) =>
    db
      .selectFrom('tasks')
      .select('id')
      .where('state', '=', 'running')
      .where('endpoint_id', '=', store.endpointId)
      .orderBy('n')
      .execute(),
  );
  for (const { id } of left) {
    const spent = await spentSoFar(storedEvents(store, id));
    await store.transaction(async (tx) => {
      await log.insert(tx, id, await log.nextSeq(tx, id), aborted);
      await endTask(services, tx, id, aborted, spent);
    });
  }
  return left.length;
}

/** What the lines of a stream say was used; of a turn that was cut off nothing is known, and so of the whole. */
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
