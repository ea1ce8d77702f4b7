import type { EventLog } from '../event-log.ts';
import type { NewTurnEvent } from '../shapes/turn-event.ts';
import type { TurnTotals } from '../services.ts';
import { endTask, type TaskEndServices, type FinalTurnEvent } from './end-task.ts';
import { readStoredEvents } from './stored-events.ts';

/** Ids of tasks that the previous process of this host left running. */
export async function listOrphanedTasks({ store }: TaskEndServices): Promise<string[]> {
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

/** Ends one orphaned task that cannot go on. */
export async function endOrphanedTask(
  services: TaskEndServices & { readonly log: EventLog },
  id: string,
  event: FinalTurnEvent,
  firstSeq: number,
): Promise<void> {
  const { store, log } = services;
  const totals = await readTotals(readStoredEvents(store, id, firstSeq - 1));
  await store.transaction(async (tx) => {
    await log.insert(tx, id, await log.nextSeq(tx, id), event);
    await endTask(services, tx, id, event, totals);
  });
}

/** Totals of a stream's events. The usage is known only when every turn reported it. */
async function readTotals(events: AsyncIterable<NewTurnEvent>): Promise<TurnTotals> {
  let turns = 0;
  let turnsWithUsage = 0;
  const sum = { prompt_tokens: 0, completion_tokens: 0 };
  for await (const event of events) {
    if (event.type === 'turn') turns += 1;
    if (event.type !== 'usage') continue;
    turnsWithUsage += 1;
    sum.prompt_tokens += event.prompt_tokens;
    sum.completion_tokens += event.completion_tokens;
  }
  return { turns, ...(turns > 0 && turnsWithUsage === turns ? { usage: sum } : {}) };
}
