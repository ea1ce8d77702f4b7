import type { TaskService } from '../../agent/tasks/index.ts';
import { taskDetail, taskRequest } from '../../agent/shapes/task.ts';
import { turnEvent } from '../../agent/shapes/turn-event.ts';
import { invalidBody } from '../body.ts';
import { hostError } from '../error-schema.ts';
import { hostEnvelope, type Problem } from '../problem.ts';
import { defineRoute, type Route } from '../route.ts';
import { jsonLines, streamResponse } from '../stream.ts';
import { agentProblem } from './plane.ts';
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
    body: taskRequest,
    answers: {
      200: streamOf('The stream of the task.'),
      400: refusal('The body does not fit, or grants widen; every violation is named.'),
      409: refusal('The Idempotency-Key was sent with another body before.'),
      429: refusal('Too many tasks are at work.'),
      503: refusal('The model of the agent is not there.'),
    },
    async handle({ body, headers, signal, asProblem }) {
      const task = await tasks.create(body, idempotencyKey(headers));
      const frames = await tasks.events(task.id, -1, readerSignal(signal));
      const response = await streamed(frames, asProblem);
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
    async handle({ params: { id = '' }, query, signal, asProblem }) {
      return await streamed(await tasks.events(id, afterOf(query), readerSignal(signal)), asProblem);
    },
  });

  return [create, one, events];
}

async function streamed(
  stored: AsyncGenerator<string, void, undefined>,
  asProblem: (error: unknown) => Problem,
): Promise<Response> {
  return await streamResponse(ended(stored), {
    contentType: jsonLines,
    failure: (error) => `${JSON.stringify(hostEnvelope(asProblem(agentProblem(error))))}\n`,
  });
}

async function* ended(
  lines: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const line of lines) yield `${line}\n`;
}

function idempotencyKey(headers: Headers): string | undefined {
  const key = headers.get('idempotency-key') ?? undefined;
  if (key === undefined || (key !== '' && key.length <= mostKey)) return key;
  const message = `expected 1 to ${mostKey} characters`;
  throw invalidBody([{ path: 'Idempotency-Key', message }]);
}

/** The number after which lines are told. */
export function afterOf(query: URLSearchParams): number {
  const text = query.get('after');
  if (text === null) return -1;
  const after = /^(?:-1|\d{1,15})$/.test(text) ? Number(text) : undefined;
  if (after !== undefined) return after;
  const message = `expected the seq of a line, a whole number, got '${text.slice(0, 40)}'`;
  throw invalidBody([{ path: 'after', message }]);
}
