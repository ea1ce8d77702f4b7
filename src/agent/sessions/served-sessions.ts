import type { Store } from '../../store/index.ts';

/** How long ended turns are still listed, and how many turns in all. */
const endedTurnRetentionMs = 10 * 60_000;
const maxTurns = 200;
const maxHarnesses = 200;

export interface OpenSession {
  readonly id: string;
  readonly kind: 'task' | 'run';
  readonly subject: string;
  readonly opened_at: string;
  readonly revoked: boolean;
}

/** A task or run in the served-session feed. */
export interface ServedTurn {
  readonly id: string;
  readonly kind: 'task' | 'run';
  readonly session_id?: string;
  readonly name: string;
  readonly state: string;
  readonly started_at: string;
  readonly ended_at?: string;
}

/** The host's own open store sessions, newest first. */
export async function listOpenSessions(store: Store): Promise<OpenSession[]> {
  const rows = await store.read((db) =>
    db
      .selectFrom('store_sessions')
      .select(['id', 'kind', 'subject', 'opened_at', 'revoked_at'])
      .where('endpoint_id', '=', store.endpointId)
      .where('closed_at', 'is', null)
      .orderBy('seq', 'desc')
      .execute(),
  );
  return rows.map(({ revoked_at, ...row }) => ({ ...row, revoked: revoked_at !== null }));
}

/**
 * Live tasks and runs and those that ended in the last ten minutes, newest first, at most 200.
 * @param options.cancelledState false: cancelled runs are shown as failed
 */
export async function listRecentTurns(
  store: Store,
  { cancelledState }: { readonly cancelledState: boolean },
): Promise<ServedTurn[]> {
  const since = new Date(store.now().getTime() - endedTurnRetentionMs).toISOString();
  const rows = await store.read(async (db) => [
    ...(await db
      .selectFrom('tasks')
      .select(['id', 'agent as name', 'session_id', 'state', 'started_at', 'ended_at'])
      .select((select) => select.val<'task'>('task').as('kind'))
      .where('endpoint_id', '=', store.endpointId)
      .where((where) =>
        where.or([
          where('state', '=', 'running'),
          where.and([
            where('state', 'in', ['completed', 'failed', 'cancelled']),
            where('ended_at', '>=', since),
          ]),
        ]),
      )
      .orderBy('started_at', 'desc')
      .orderBy('n', 'desc')
      .limit(maxTurns)
      .execute()),
    ...(await db
      .selectFrom('runs')
      .select(['id', 'workflow as name', 'session_id', 'state', 'started_at', 'ended_at'])
      .select((select) => select.val<'run'>('run').as('kind'))
      .where('endpoint_id', '=', store.endpointId)
      .where((where) =>
        where.or([
          where('state', 'in', ['running', 'paused', 'suspended']),
          where.and([
            where('state', 'in', ['completed', 'failed', 'cancelled']),
            where('ended_at', '>=', since),
          ]),
        ]),
      )
      .orderBy('started_at', 'desc')
      .orderBy('id', 'desc')
      .limit(maxTurns)
      .execute()),
  ]);
  return rows
    .sort((a, b) => (a.started_at < b.started_at ? 1 : a.started_at > b.started_at ? -1 : 0))
    .slice(0, maxTurns)
    .map(({ id, kind, session_id, name, state, started_at, ended_at }) => ({
      id,
      kind,
      name,
      state: state === 'cancelled' && !cancelledState ? 'failed' : state,
      started_at,
      ...(session_id === null ? {} : { session_id }),
      ...(ended_at === null ? {} : { ended_at }),
    }));
}

/** A program that works on this host or registered external sessions. */
export interface Harness {
  readonly name: string;
  readonly builtin: boolean;
  /** Its open external sessions, and all of its external sessions. */
  readonly open_sessions?: number;
  readonly sessions?: number;
  readonly last_seen_at?: string;
}

/** The host itself, then the harnesses of external sessions, by their last heartbeat, newest first. */
export async function listHarnesses(store: Store): Promise<Harness[]> {
  const rows = await store.read((db) =>
    db
      .selectFrom('external_sessions')
      .select((select) => [
        'harness as name',
        select.fn.countAll<number>().as('sessions'),
        select.fn.count<number>('id').filterWhere('ended_at', 'is', null).as('open_sessions'),
        select.fn.max('beat_at').as('last_seen_at'),
      ])
      .where('endpoint_id', '=', store.endpointId)
      .groupBy('harness')
      .orderBy('last_seen_at', 'desc')
      .limit(maxHarnesses)
      .execute(),
  );
  return [{ name: 'lathe', builtin: true }, ...rows.map((row) => ({ ...row, builtin: false }))];
}

export interface WorkCounts {
  readonly tasks: number;
  readonly workflow_runs: number;
}

/** Counts the tasks and runs of this host from now on, independent of any clock. */
export async function createWorkCounter(store: Store): Promise<() => Promise<WorkCounts>> {
  const countsAtStart = await readWorkCounts(store);
  return async () => {
    const now = await readWorkCounts(store);
    return {
      tasks: now.tasks - countsAtStart.tasks,
      workflow_runs: now.workflow_runs - countsAtStart.workflow_runs,
    };
  };
}

async function readWorkCounts(store: Store): Promise<WorkCounts> {
  return await store.read(async (db) => {
    const count = async (table: 'tasks' | 'runs') =>
      await db
        .selectFrom(table)
        .select((select) => select.fn.countAll<number>().as('rows'))
        .where('endpoint_id', '=', store.endpointId)
        .executeTakeFirstOrThrow();
    return { tasks: (await count('tasks')).rows, workflow_runs: (await count('runs')).rows };
  });
}
