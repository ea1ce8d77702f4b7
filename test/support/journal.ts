import type { Insertable } from 'kysely';
import type { Store, Tables } from '../../src/store/index.ts';

/** Rows of one statement: both databases take few enough values at once. */
const together = 500;
const begun = Date.UTC(2026, 0, 1);

/**
 * Fills the journal of a host: tasks and runs that have ended, by turns, a second after another.
 * @param first how many there are already
 */
export async function seedJournal(store: Store, rows: number, first = 0): Promise<void> {
  const numbers = Array.from({ length: rows }, (_, index) => first + index);
  for (let from = 0; from < rows; from += 2 * together) {
    const some = numbers.slice(from, from + 2 * together);
    await store.transaction(async (tx) => {
      const tasks: Insertable<Tables['tasks']>[] = [];
      for (const index of some.filter((number) => number % 2 === 0))
        tasks.push(taskRow(store, index, await store.nextNumber(tx, 'task')));
      const runs = some.filter((number) => number % 2 === 1).map((index) => runRow(store, index));
      if (tasks.length > 0) await tx.insertInto('tasks').values(tasks).execute();
      if (runs.length > 0) await tx.insertInto('runs').values(runs).execute();
    });
  }
}

const both = (store: Store, index: number) => ({
  endpoint_id: store.endpointId,
  state: index % 7 === 0 ? ('failed' as const) : ('completed' as const),
  started_at: new Date(begun + index * 1000).toISOString(),
  ended_at: new Date(begun + index * 1000 + 900).toISOString(),
  engine: 'resident' as const,
  model: 'lathe-tiny',
  prompt_tokens: 400 + index,
  completion_tokens: 30,
  session_id: null,
});

const taskRow = (store: Store, index: number, n: number): Insertable<Tables['tasks']> => ({
  ...both(store, index),
  id: `t${n}`,
  n,
  agent: 'default',
  title: `Find out why the build number ${index} failed`,
  request: JSON.stringify({ agent: 'default', prompt: 'x'.repeat(500) }),
  cwd: '/home/somebody/project',
  outcome: 'answer',
  last_event: 'answered: It failed because a test did.',
  result: JSON.stringify({ text: 'y'.repeat(1000) }),
  turns: 3,
  idempotency_key: null,
  request_digest: null,
});

const runRow = (store: Store, index: number): Insertable<Tables['runs']> => ({
  ...both(store, index),
  id: `r${begun + index * 1000}000000`,
  workflow: 'nightly-health',
  source: `[ensemble]\nname = "nightly-health"\n${'# '.repeat(1000)}`,
  digest: 'd',
  outcome: 'completed',
  waiting_on: null,
  suspend_kind: null,
  wrapper_cycle: null,
  gate: null,
  resumed: 0,
  requested: null,
  input: null,
  inputs: '{}',
  retried_from: null,
  last_event: 'completed',
  result: JSON.stringify({ text: 'z'.repeat(1000) }),
});
