import type { Store } from '../../store/index.ts';
import type { Session } from '../shapes/session.ts';

interface MeasuredRow {
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly last_event: string | null;
}

const observedMembers = ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  last_event,
}: MeasuredRow) => ({
  ...(last_event === null ? {} : { last_event }),
  ...(prompt === null || completion === null ? {} : { tokens: { prompt, completion } }),
});

/**
 * Ended tasks, newest first. The negated condition makes SQLite walk the time index backwards and stop early, instead
 * of sorting all ended tasks.
 */
export async function finishedTasks(store: Store, limit: number): Promise<Session[]> {
  const rows = await store.read((db) =>
    db
      .selectFrom('tasks')
      .select(['id', 'title', 'state', 'started_at', 'ended_at', 'last_event', 'cwd', 'engine', 'model'])
      .select(['prompt_tokens', 'completion_tokens'])
      .where('endpoint_id', '=', store.endpointId)
      .where('state', '!=', 'running')
      .orderBy('started_at', 'desc')
      .orderBy('n', 'desc')
      .limit(limit)
      .execute(),
  );
  return rows.map((row) => ({
    id: row.id,
    kind: 'task',
    title: row.title,
    state: row.state,
    started_at: row.started_at,
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...(row.cwd === null ? {} : { cwd: row.cwd }),
    ...observedMembers(row),
    route: { engine: row.engine, model: row.model },
    cancellable: false,
  }));
}

/** Ended runs, newest first. */
export async function finishedRuns(store: Store, limit: number): Promise<Session[]> {
  const rows = await store.read((db) =>
    db
      .selectFrom('runs')
      .select(['id', 'workflow', 'state', 'started_at', 'ended_at', 'last_event', 'wrapper_cycle'])
      .select(['engine', 'model', 'prompt_tokens', 'completion_tokens'])
      .where('endpoint_id', '=', store.endpointId)
      .where('state', 'not in', ['running', 'paused', 'suspended'])
      .orderBy('started_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .execute(),
  );
  return rows.map((row) => ({
    id: row.id,
    kind: 'run',
    title: row.workflow,
    state: row.state,
    started_at: row.started_at,
    ...(row.ended_at === null ? {} : { ended_at: row.ended_at }),
    ...observedMembers(row),
    ...(row.engine === null || row.model === null ? {} : { route: { engine: row.engine, model: row.model } }),
    cancellable: false,
    ...(row.wrapper_cycle === null ? {} : { wrapper_cycle: row.wrapper_cycle }),
  }));
}
