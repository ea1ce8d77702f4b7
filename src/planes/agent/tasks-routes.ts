import { z } from 'zod';
import { parseTraceparent } from '../../tracing/index.ts';
import type { TaskService } from '../../agent/tasks/task-service.ts';
import { messageRequest, taskDetail, taskList, taskRequest } from '../../agent/shapes/task.ts';
import { turnEvent } from '../../agent/shapes/turn-event.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { strictObject } from '../../http/schema/strict.ts';
import { hostError } from '../error-schema.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { ndjsonType } from '../../http/stream.ts';
import { idempotencyKeyDescription, readIdempotencyKey } from './idempotency-key.ts';
import { readIntegerQuery } from './integer-query.ts';
import { linesUntil, readAfter, streamLines } from './lines-response.ts';
import { createReaderSignal } from './reader-signal.ts';

const stopRequest = strictObject({
  only: z
    .literal('call', { error: "expected 'call'" })
    .optional()
    .describe('`call` stops the running tool call alone.'),
}).meta({ id: 'StopTaskRequest' });
/** Events that end a part: a repeated request replays its part alone. */
const partEnds = ['answer', 'aborted'];
const limitRange = { min: 1, max: 1000, defaultValue: 100 };
const taskStates = ['running', 'completed', 'failed', 'cancelled'] as const;
const taskStopped = z.object({ id: z.string(), stopped: z.literal(true) }).meta({ id: 'TaskStopped' });
const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });
const lineStreamResponse = (description: string) => ({ description, content: { [ndjsonType]: turnEvent } });

/** Routes that create tasks, read them and replay their streams. */
export function tasksRoutes({ tasks }: { readonly tasks: TaskService }): Route[] {
  const createTask = defineRoute({
    method: 'POST',
    path: '/agent/v1/tasks',
    operationId: 'createTask',
    summary: 'Run an agent on a prompt',
    description:
      'Streams a line for each event, from `start` to `answer` or `aborted`. The task continues when the client disconnects. ' +
      '`x-svc-session` is the id of its store session and `x-svc-session-secret` the credential to revoke it, sent only ' +
      'once. With an `Idempotency-Key`, a repeated request starts no second task: the stream of the first is replayed.',
    headers: { 'Idempotency-Key': idempotencyKeyDescription },
    body: taskRequest,
    responses: {
      200: lineStreamResponse('The stream of the task.'),
      400: errorResponse('The body is invalid or widens the grants; every violation is listed.'),
      409: errorResponse('The Idempotency-Key was used with a different body.'),
      429: errorResponse('Too many tasks are running.'),
      503: errorResponse('The model of the agent is not available.'),
    },
    async handle({ body, headers, by, signal, asHttpError }) {
      const traceparent = parseTraceparent(headers.get('traceparent'));
      const task = await tasks.create(body, readIdempotencyKey(headers), { by, traceparent });
      const lines = await tasks.events(task.id, -1, createReaderSignal(signal));
      const response = await streamLines(linesUntil(lines, ...partEnds), asHttpError);
      if (task.sessionId !== undefined) response.headers.set('x-svc-session', task.sessionId);
      if (task.capability !== undefined) response.headers.set('x-svc-session-secret', task.capability);
      return response;
    },
  });

  const sendMessage = defineRoute({
    method: 'POST',
    path: '/agent/v1/tasks/{id}/messages',
    operationId: 'sendTaskMessage',
    summary: 'Go on with a task that has ended',
    description:
      'The agent gets the message with everything that was said and done before, and its own staged changes. Streams a line for ' +
      'each event, from `message` to `answer` or `aborted`. The grants are those of the task, the session and its credential ' +
      '(`x-svc-session`, `x-svc-session-secret`) are new, and so is the receipt, `t1.2` for the first message. With an ' +
      '`Idempotency-Key`, a repeated message is not sent again.',
    params: { id: 'Id of the task, such as t1.' },
    headers: { 'Idempotency-Key': idempotencyKeyDescription },
    body: messageRequest,
    responses: {
      200: lineStreamResponse('The stream from this message on.'),
      400: errorResponse('The body is invalid; every violation is listed.'),
      404: errorResponse('No task has this id.'),
      409: errorResponse('The task is running, or the Idempotency-Key was used with a different body.'),
      429: errorResponse('Too many tasks are running.'),
      503: errorResponse('The model of the agent is not available.'),
    },
    async handle({ params: { id = '' }, body, headers, by, signal, asHttpError }) {
      const traceparent = parseTraceparent(headers.get('traceparent'));
      const part = await tasks.send(id, body, readIdempotencyKey(headers), { by, traceparent });
      const lines = await tasks.events(id, part.firstSeq - 1, createReaderSignal(signal));
      const response = await streamLines(linesUntil(lines, ...partEnds), asHttpError);
      if (part.sessionId !== undefined) response.headers.set('x-svc-session', part.sessionId);
      if (part.capability !== undefined) response.headers.set('x-svc-session-secret', part.capability);
      return response;
    },
  });

  const listTasks = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks',
    operationId: 'listTasks',
    summary: 'List tasks, newest first',
    query: {
      limit: `Maximum number of tasks, from ${limitRange.min} to ${limitRange.max}; default ${limitRange.defaultValue}.`,
      state: `Only tasks in this state: ${taskStates.join(', ')}.`,
    },
    responses: {
      200: { description: 'The tasks.', content: { 'application/json': taskList } },
      400: errorResponse('`limit` is out of range, or there is no such `state`.'),
    },
    handle: async ({ query }) =>
      Response.json(await tasks.list(readIntegerQuery(query, 'limit', limitRange), readState(query))),
  });

  const getTask = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks/{id}',
    operationId: 'getTask',
    summary: 'Get a task with its turns',
    params: { id: 'Id of the task, such as t1.' },
    responses: {
      200: { description: 'The task.', content: { 'application/json': taskDetail } },
      404: errorResponse('No task has this id.'),
    },
    handle: async ({ params: { id = '' } }) => Response.json(await tasks.detail(id)),
  });

  const readEvents = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks/{id}/events',
    operationId: 'readTaskEvents',
    summary: 'Stream the events of a task from any line',
    description: 'Sends existing lines at once and new lines as they occur, up to the last line.',
    params: { id: 'Id of the task, such as t1.' },
    query: { after: 'The last `seq` that you received; absent: from the start.' },
    responses: {
      200: lineStreamResponse('The lines after `after`.'),
      400: errorResponse('`after` is not the number of a line.'),
      404: errorResponse('No task has this id.'),
    },
    async handle({ params: { id = '' }, query, signal, asHttpError }) {
      return await streamLines(
        await tasks.events(id, readAfter(query), createReaderSignal(signal)),
        asHttpError,
      );
    },
  });

  const stopTask = defineRoute({
    method: 'POST',
    path: '/agent/v1/tasks/{id}/stop',
    operationId: 'stopTask',
    summary: 'Stop a running task',
    description:
      'Ends the running tool and the request to the model; the task ends as `cancelled`. What was staged stays staged. With `{"only": "call"}` only the running tool call ends, and the agent is told.',
    params: { id: 'Id of the task, such as t1.' },
    body: stopRequest,
    isBodyOptional: true,
    responses: {
      200: { description: 'The task, or the call, has ended.', content: { 'application/json': taskStopped } },
      404: errorResponse('No task has this id.'),
      400: errorResponse('The body is invalid.'),
      409: errorResponse('The task has ended already, runs no call, or runs on another host.'),
    },
    handle: async ({ params: { id = '' }, by, body }) =>
      Response.json(await (body.only === 'call' ? tasks.stopCall(id, by) : tasks.stopTask(id, by))),
  });

  return [createTask, listTasks, getTask, readEvents, sendMessage, stopTask];
}

function readState(query: URLSearchParams): (typeof taskStates)[number] | undefined {
  const text = query.get('state');
  if (text === null) return undefined;
  const state = taskStates.find((one) => one === text);
  if (state !== undefined) return state;
  throw invalidBodyError([{ path: 'state', message: `expected one of ${taskStates.join(', ')}` }]);
}
