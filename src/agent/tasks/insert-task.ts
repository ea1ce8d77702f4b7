import type { Insertable } from 'kysely';
import type { Store, Tables, Tx } from '../../store/index.ts';
import { idempotencyConflict } from '../idempotency.ts';
import type { ChatModelMessage } from '../chat-model.ts';
import type { EventLog } from '../event-log.ts';
import type { SignalStore, StoreSessions } from '../services.ts';
import type { Route } from '../shapes/common.ts';
import type { TaskRequest } from '../shapes/task.ts';
import { insertMessages } from '../stored-conversation.ts';
import { taskTitle } from './task-texts.ts';

export interface NewTask {
  readonly request: TaskRequest;
  readonly route: Route;
  readonly idempotencyKey: string | undefined;
  readonly digest: string;
  readonly messages: readonly ChatModelMessage[];
  /** The task or run that handed the work on. */
  readonly parent?: string | undefined;
}

/** A created task. The capability is returned only here. */
export interface StartedTask {
  readonly id: string;
  readonly sessionId: string;
  readonly capability: string;
}

export interface TaskStartServices {
  readonly store: Store;
  readonly log: EventLog;
  readonly sessions: Pick<StoreSessions, 'open'>;
  readonly signals: SignalStore;
}

/** Inserts the row, the first event, the store session and the signal of a task. */
export async function insertTask(
  { store, log, sessions, signals }: TaskStartServices,
  tx: Tx,
  { request, route, idempotencyKey, digest, messages, parent }: NewTask,
): Promise<StartedTask> {
  const n = await store.nextNumber(tx, 'task');
  const id = `t${n}`;
  const { id: sessionId, capability } = await sessions.open(tx, 'task', id);
  const row: Insertable<Tables['tasks']> = {
    id,
    n,
    endpoint_id: store.endpointId,
    agent: request.agent,
    title: taskTitle(request.prompt),
    request: JSON.stringify(request),
    cwd: request.cwd ?? null,
    ...route,
    state: 'running',
    outcome: null,
    started_at: store.time(),
    ended_at: null,
    last_event: null,
    result: null,
    turns: 0,
    prompt_tokens: null,
    completion_tokens: null,
    idempotency_key: idempotencyKey ?? null,
    request_digest: digest,
    session_id: sessionId,
    part: 1,
    parent: parent ?? null,
  };
  await tx.insertInto('tasks').values(row).execute();
  await insertMessages(tx, store, { id, first: 0, messages });
  await log.insert(tx, id, 0, { type: 'start', task_id: id, agent: request.agent, session_id: sessionId });
  await signals.emit(tx, 'task.started', { id, agent: row.agent, title: row.title, part: 1 });
  return { id, sessionId, capability };
}

/** Finds the task that was created with an idempotency key. Throws when its request was a different one. */
export async function findTaskByKey(store: Store, key: string, digest: string) {
  const row = await store.read((db) =>
    db
      .selectFrom('tasks')
      .select(['id', 'session_id', 'request_digest'])
      .where('idempotency_key', '=', key)
      .executeTakeFirst(),
  );
  if (!row || row.request_digest === digest) return row;
  throw idempotencyConflict(row.id);
}
