import type { WrittenRow } from '../store/index.ts';
import type { ChangeBus } from './change-bus.ts';
import type { Topic } from './topics.ts';

/** The topics of the tables whose rows are shown. Ids are those of the task, run, change, agent or workflow. */
const topicOfTable: Partial<Record<WrittenRow['table'], Topic>> = {
  tasks: 'tasks',
  task_parts: 'tasks',
  runs: 'runs',
  run_steps: 'runs',
  pending: 'pending',
  acts: 'acts',
  agents: 'agents',
  workflows: 'workflows',
  external_sessions: 'sessions',
  store_sessions: 'sessions',
  receipts: 'receipts',
  completions: 'completions',
  bench: 'benches',
  parity: 'parity',
  lab_kernels: 'kernels',
};

/** Announces what a transaction of the host's database wrote. */
export const announceRows = (bus: ChangeBus, rows: readonly WrittenRow[]): void => {
  for (const { table, id } of rows) {
    const topic = topicOfTable[table];
    if (topic) bus.announce(topic, hasNamedRows.has(topic) ? id : undefined);
  }
};

/** Topics whose ids readers know; of the others, ids would only be many. */
const hasNamedRows: ReadonlySet<Topic> = new Set([
  'tasks',
  'runs',
  'pending',
  'agents',
  'workflows',
  'sessions',
  'receipts',
]);
