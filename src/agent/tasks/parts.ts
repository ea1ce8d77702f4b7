import type { Store, Tx } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import { idempotencyConflict } from '../idempotency.ts';
import type { ChatModelMessage } from '../chat-model.ts';
import type { Route } from '../shapes/common.ts';
import type { MessageRequest, TaskRequest } from '../shapes/task.ts';
import type { StartedTask, TaskStartServices } from './insert-task.ts';
import type { TaskRow } from './rows.ts';
import { insertMessages } from '../stored-conversation.ts';

/** Parts of a task's conversation: its own request, and each message after it. */

/** A part that was started: its position in the stream, beside what a started task has. */
export interface StartedPart extends StartedTask {
  readonly part: number;
  readonly firstSeq: number;
}

/** The request of a message: absent members are those of the task's own request. */
export const requestOfPart = (task: TaskRequest, message: MessageRequest | undefined): TaskRequest => {
  if (!message) return task;
  const { inputs: _, ...kept } = task;
  return { ...kept, ...message };
};

/** Id of a part: of its receipt and its spans. */
export const partId = (taskId: string, part: number): string => (part === 1 ? taskId : `${taskId}.${part}`);

/** The part of a task that runs, or ran last. */
export async function readPart(
  db: Pick<Tx, 'selectFrom'>,
  { id, part, request, started_at }: Pick<TaskRow, 'id' | 'part' | 'request' | 'started_at'>,
): Promise<{ readonly request: TaskRequest; readonly firstSeq: number; readonly startedAt: string }> {
  const task = JSON.parse(request) as TaskRequest;
  if (part === 1) return { request: task, firstSeq: 0, startedAt: started_at };
  const row = await db
    .selectFrom('task_parts')
    .select(['request', 'first_seq', 'started_at'])
    .where('task_id', '=', id)
    .where('n', '=', part)
    .executeTakeFirstOrThrow();
  const message = JSON.parse(row.request) as MessageRequest;
  return { request: requestOfPart(task, message), firstSeq: row.first_seq, startedAt: row.started_at };
}

/** Finds the part that was started with an idempotency key. Throws when its request was a different one. */
export async function findPartByKey(store: Store, taskId: string, key: string, digest: string) {
  const row = await store.read((db) =>
    db
      .selectFrom('task_parts')
      .select(['first_seq', 'request_digest'])
      .where('task_id', '=', taskId)
      .where('idempotency_key', '=', key)
      .executeTakeFirst(),
  );
  if (!row || row.request_digest === digest) return row;
  throw idempotencyConflict(taskId);
}

/** Starts the next part of a task that has ended: its row, its first event, its store session and its signal. */
export async function insertPart(
  { store, log, sessions, signals }: TaskStartServices,
  tx: Tx,
  task: Pick<TaskRow, 'id' | 'part' | 'agent' | 'title'>,
  message: {
    readonly request: MessageRequest;
    readonly route: Route;
    readonly idempotencyKey: string | undefined;
    readonly digest: string;
    /** What is added to the conversation, and its number there. */
    readonly added: { readonly first: number; readonly messages: readonly ChatModelMessage[] };
  },
): Promise<StartedPart> {
  const { id } = task;
  const part = task.part + 1;
  const { request, route, idempotencyKey, digest, added } = message;
  const { id: sessionId, capability } = await sessions.open(tx, 'task', id);
  const { numUpdatedRows } = await tx
    .updateTable('tasks')
    .set({
      ...route,
      part,
      state: 'running',
      endpoint_id: store.endpointId,
      session_id: sessionId,
      outcome: null,
      ended_at: null,
      last_event: null,
      result: null,
    })
    .where('id', '=', id)
    .where('part', '=', task.part)
    .where('state', '!=', 'running')
    .executeTakeFirstOrThrow();
  if (numUpdatedRows === 0n) throw taskRunning(id);
  const firstSeq = await log.nextSeq(tx, id);
  await tx
    .insertInto('task_parts')
    .values({
      task_id: id,
      n: part,
      first_seq: firstSeq,
      started_at: store.time(),
      request: JSON.stringify(request),
      request_digest: digest,
      idempotency_key: idempotencyKey ?? null,
    })
    .execute();
  await insertMessages(tx, store, { id, ...added });
  await log.insert(tx, id, firstSeq, {
    type: 'message',
    part,
    prompt: request.prompt,
    session_id: sessionId,
  });
  await signals.emit(tx, 'task.started', { id, agent: task.agent, title: task.title, part });
  return { id, sessionId, capability, part, firstSeq };
}

export const taskRunning = (id: string): AgentError =>
  new AgentError(
    'conflict',
    'task_running',
    `${id} is running: send the message when it has ended, or stop it first (POST /agent/v1/tasks/${id}/stop).`,
  );
