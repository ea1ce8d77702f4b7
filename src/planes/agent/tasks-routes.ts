import { traceparentOf } from '../../watch/index.ts';
import type { TaskService } from '../../agent/tasks/index.ts';
import { taskDetail, taskRequest } from '../../agent/shapes/task.ts';
import { turnEvent } from '../../agent/shapes/turn-event.ts';
import { invalidBody } from '../../http/violations.ts';
import { hostError } from '../error-schema.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { jsonLines } from '../../http/stream.ts';
import { afterOf, linesResponse } from './lines-response.ts';
import { readerSignal } from './reader-signal.ts';

const mostKey = 255;
const refusal = (description: string) => ({ description, content: { 'application/json': hostError } });
const streamOf = (description: string) => ({ description, content: { [jsonLines]: turnEvent } });

/** Routes that create tasks, read them and replay their streams. */
export function tasksRoutes({ tasks }: { readonly tasks: TaskService }): Route[] {
  const create = defineRoute({
    method: 'POST',
    path: '/agent/v1/tasks',
    operationId: 'createTask',
    summary: 'Run an agent on a prompt',
    description:
      'Streams a line for each event, from `start` to `answer` or `aborted`. The task continues when the client disconnects. ' +
      '`x-svc-session` is the id of its store session and `x-svc-session-secret` the credential to revoke it, sent only ' +
      'once. With an `Idempotency-Key`, a repeated request starts no second task: the stream of the first is replayed.',
    headers: { 'Idempotency-Key': `Key of the request, 1 to ${mostKey} characters.` },
    body: taskRequest,
    answers: {
      200: streamOf('The stream of the task.'),
      400: refusal('The body is invalid or widens the grants; every violation is listed.'),
      409: refusal('The Idempotency-Key was used with a different body.'),
      429: refusal('Too many tasks are running.'),
      503: refusal('The model of the agent is not available.'),
    },
    async handle({ body, headers, by, signal, asHttpError }) {
      const traceparent = traceparentOf(headers.get('traceparent'));
      const task = await tasks.create(body, idempotencyKey(headers), { by, traceparent });
      const frames = await tasks.events(task.id, -1, readerSignal(signal));
      const response = await linesResponse(frames, asHttpError);
      if (task.sessionId !== undefined) response.headers.set('x-svc-session', task.sessionId);
      if (task.capability !== undefined) response.headers.set('x-svc-session-secret', task.capability);
      return response;
    },
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks/{id}',
    operationId: 'getTask',
    summary: 'Get a task with its turns',
    params: { id: 'Id of the task, such as t1.' },
    answers: {
      200: { description: 'The task.', content: { 'application/json': taskDetail } },
      404: refusal('No task has this id.'),
    },
    handle: async ({ params: { id = '' } }) => Response.json(await tasks.detail(id)),
  });

  const events = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks/{id}/events',
    operationId: 'readTaskEvents',
    summary: 'Stream the events of a task from any line',
    description: 'Sends existing lines at once and new lines as they occur, up to the last line.',
    params: { id: 'Id of the task, such as t1.' },
    query: { after: 'The last `seq` that you received; absent: from the start.' },
    answers: {
      200: streamOf('The lines after `after`.'),
      400: refusal('`after` is not the number of a line.'),
      404: refusal('No task has this id.'),
    },
    async handle({ params: { id = '' }, query, signal, asHttpError }) {
      return await linesResponse(await tasks.events(id, afterOf(query), readerSignal(signal)), asHttpError);
    },
  });

  return [create, one, events];
}

function idempotencyKey(headers: Headers): string | undefined {
  const key = headers.get('idempotency-key') ?? undefined;
  if (key === undefined || (key !== '' && key.length <= mostKey)) return key;
  const message = `expected 1 to ${mostKey} characters`;
  throw invalidBody([{ path: 'Idempotency-Key', message }]);
}
