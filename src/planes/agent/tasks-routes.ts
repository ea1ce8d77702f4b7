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

/** Tasks: made, looked at, and their streams read again. */
export function tasksRoutes({ tasks }: { readonly tasks: TaskService }): Route[] {
  const create = defineRoute({
    method: 'POST',
    path: '/agent/v1/tasks',
    operationId: 'createTask',
    summary: 'Have an agent work on a prompt',
    description:
      'A line for each event, from `start` to `answer` or `aborted`. The task goes on when the client goes away. ' +
      '`x-svc-session` names its store session and `x-svc-session-secret` is the credential to revoke it with, told ' +
      'once. With an `Idempotency-Key` the same request is not made twice: its stream is told again.',
    headers: { 'Idempotency-Key': `Of the request, 1 to ${mostKey} characters.` },
    body: taskRequest,
    answers: {
      200: streamOf('The stream of the task.'),
      400: refusal('The body does not fit, or grants widen; every violation is named.'),
      409: refusal('The Idempotency-Key was sent with another body before.'),
      429: refusal('Too many tasks are at work.'),
      503: refusal('The model of the agent is not there.'),
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
    summary: 'A task, and what happened in its turns',
    params: { id: 'Of the task: t1.' },
    answers: {
      200: { description: 'The task.', content: { 'application/json': taskDetail } },
      404: refusal('There is no such task.'),
    },
    handle: async ({ params: { id = '' } }) => Response.json(await tasks.detail(id)),
  });

  const events = defineRoute({
    method: 'GET',
    path: '/agent/v1/tasks/{id}/events',
    operationId: 'readTaskEvents',
    summary: 'The stream of a task, from any line on',
    description: 'What is there at once, and what comes as it comes, up to the last line.',
    params: { id: 'Of the task: t1.' },
    query: { after: 'The last `seq` that you have; absent: from the start.' },
    answers: {
      200: streamOf('The lines after that one.'),
      400: refusal('`after` is no number of a line.'),
      404: refusal('There is no such task.'),
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
