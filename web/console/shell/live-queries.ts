import { onlineManager, type Query, type QueryClient, type QueryKey } from '@tanstack/react-query';
import { asFault } from '../../api/fault.ts';
import { type HostChange, hostConnection } from '../../api/host-connection.ts';

/**
 * The queries that a change concerns, by the beginnings of their keys. A key of one task, run, change or workflow is left out where
 * another one changed.
 */
const keysOfTopic: Readonly<Record<string, (id: string | undefined) => readonly QueryKey[]>> = {
  host: () => [['host'], ['info'], ['v1'], ['tools']],
  telemetry: () => [
    ['host', 'telemetry'],
    ['host', 'info'],
    ['observe', 'speed'],
  ],
  completions: () => [
    ['observe', 'speed'],
    ['observe', 'has-chat'],
    ['host', 'served'],
  ],
  models: () => [
    ['host', 'models'],
    ['v1', 'models'],
  ],
  pulls: () => [],
  kernels: () => [
    ['lab', 'parts'],
    ['lab', 'graph'],
    ['lab', 'versions'],
    ['host', 'models'],
  ],
  bindings: () => [
    ['lab', 'graph'],
    ['lab', 'parts'],
  ],
  configs: () => [
    ['lab', 'configs'],
    ['lab', 'validation'],
  ],
  benches: () => [
    ['observe', 'benches'],
    ['lab', 'benches'],
    ['lab', 'versions'],
  ],
  parity: () => [['lab', 'parity']],
  tasks: (id) => [['task', id], ...feedKeys, ['home']],
  runs: (id) => [['run', id], ['runs'], ...feedKeys],
  pending: (id) => [['pending'], ['waiting'], ...(id === undefined ? [] : [['pending', id]])],
  acts: () => [['acts']],
  sessions: () => [...feedKeys, ['host', 'served']],
  receipts: () => [['agent', 'receipt'], ['agent', 'sessions'], ['receipt-chain']],
  agents: () => [['agents']],
  workflows: () => [['workflows'], ['builtins']],
  racks: () => [['recorder']],
};

/** Sessions, tasks and runs are one feed. */
const feedKeys: readonly QueryKey[] = [
  ['sessions'],
  ['agent', 'sessions'],
  ['agent', 'task-session'],
  ['waiting'],
];

/** Changes of this time, in ms, cause one read. */
const collectMs = 150;
/** How often everything is read while the host does not tell what changes, in ms. */
const fallbackMs = 10_000;

/**
 * Keeps the queries of all views current, by the one stream of changes. While the host does not answer, queries wait, and when it
 * answers again they are read; a refused stream is replaced by slow reads of what is shown.
 */
export function keepQueriesLive(queries: QueryClient): void {
  // Whether the host answers decides, not whether the machine has a network: the host may run on it.
  onlineManager.setEventListener(() => () => undefined);
  const due = new Map<string, QueryKey>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const read = () => {
    timer = undefined;
    for (const queryKey of due.values()) void queries.invalidateQueries({ queryKey, predicate: isAllowed });
    due.clear();
  };
  const collect = (changes: readonly HostChange[]) => {
    for (const { topic, id } of changes)
      for (const key of keysOfTopic[topic]?.(id) ?? [[topic]]) {
        // Without an id it is any task.
        const queryKey = key.filter((part) => part !== undefined);
        due.set(JSON.stringify(queryKey), queryKey);
      }
    timer ??= setTimeout(read, collectMs);
  };
  const readAll = () => void queries.invalidateQueries({ predicate: isAllowed });
  let fallback: ReturnType<typeof setInterval> | undefined;
  hostConnection.listen({
    onChange: (changes) => (changes ? collect(changes) : readAll()),
    onState() {
      const { state } = hostConnection;
      onlineManager.setOnline(state !== 'down');
      clearInterval(fallback);
      fallback = state === 'silent' ? setInterval(readAll, fallbackMs) : undefined;
    },
  });
  hostConnection.start();
}

/** A query without the token that it needs is not repeated: it would open a dismissed sign-in dialog again. */
const isAllowed = ({ state: { error } }: Query): boolean => !(error && asFault(error).status === 401);
