import { z } from 'zod';
import { runDetail, runEvent, runRecord } from '../../agent/shapes/run.ts';
import { traceparentOf } from '../../watch/index.ts';
import type { Runs } from '../../agent/workflows/running/runs.ts';
import { hostError } from '../error-schema.ts';
import { type AnswerSpec, defineRoute, type Route } from '../../http/route.ts';
import { jsonLines } from '../../http/stream.ts';
import { afterOf, linesResponse } from './lines-response.ts';
import { readerSignal } from './reader-signal.ts';
import {
  dispatched,
  newSignal,
  pauseRequested,
  resumed,
  resumeRequest,
  runRequest,
  signalled,
} from './runs-schema.ts';
import { wholeQuery } from './whole-query.ts';

const params = { id: 'Id of the run, such as r1700000000000000000.' };
const listed = { least: 1, most: 1000, otherwise: 100 };
const answer = (description: string, schema: z.ZodType): AnswerSpec => ({
  description,
  content: { 'application/json': schema },
});
const refusal = (description: string) => answer(description, hostError);
const lines = (description: string): AnswerSpec => ({ description, content: { [jsonLines]: runEvent } });
const unknown = refusal('No run has this id.');

/** Routes that start, read and control workflow runs. */
export function runsRoutes({ runs }: { readonly runs: Runs }): Route[] {
  return [...startRoutes(runs), ...readRoutes(runs), ...controlRoutes(runs)];
}

function startRoutes(runs: Runs): Route[] {
  const start = defineRoute({
    method: 'POST',
    path: '/agent/v1/workflows/{name}/runs',
    operationId: 'runWorkflow',
    summary: 'Run an enabled workflow',
    description:
      'Streams a line for each event of the segment, from `run_start` to `run_end`. The run continues when the client ' +
      'disconnects. `x-svc-session` is the id of its store session and `x-svc-session-secret` the credential to revoke it, ' +
      'sent only once. A name that is not enabled is answered like an unknown name.',
    params: { name: 'Name of the workflow.' },
    body: runRequest,
    bodyOptional: true,
    answers: {
      200: lines('The stream of the first segment.'),
      400: refusal('The body or the inputs are invalid; every violation is listed.'),
      404: refusal('No enabled workflow has this name.'),
      409: refusal('A run is in flight, `retried_from` is not a failed run, or the workflow cannot be read.'),
    },
    before: async ({ params: { name = '' } }) => await runs.requireCallable(name),
    async handle({ params: { name = '' }, body, by, headers, signal, asHttpError }) {
      const trace = traceparentOf(headers.get('traceparent'));
      const { id, sessionId, capability } = await runs.start(name, body, by, trace);
      const stored = await runs.events(id, -1, readerSignal(signal));
      const response = await linesResponse(oneSegment(stored), asHttpError);
      response.headers.set('x-svc-session', sessionId);
      response.headers.set('x-svc-session-secret', capability);
      return response;
    },
  });

  const signal = defineRoute({
    method: 'POST',
    path: '/agent/v1/events',
    operationId: 'emitEvent',
    summary: 'Emit an event to waiting runs',
    body: newSignal,
    answers: {
      202: answer('The event was stored; runs that wait for it continue in turn.', signalled),
      400: refusal('The body is invalid.'),
    },
    async handle({ body: { name, data } }) {
      return Response.json({ name, seq: await runs.signal(name, data) }, { status: 202 });
    },
  });
  return [start, signal];
}

function readRoutes(runs: Runs): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/workflows/runs',
    operationId: 'listRuns',
    summary: 'List runs, newest first',
    query: {
      limit: `Maximum number of runs, from ${listed.least} to ${listed.most}; default ${listed.otherwise}.`,
    },
    answers: {
      200: answer('The journal.', z.array(runRecord).meta({ id: 'RunRecords' })),
      400: refusal('`limit` is out of range or not a number.'),
    },
    handle: async ({ query }) => Response.json(await runs.list(wholeQuery(query, 'limit', listed))),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}',
    operationId: 'getRun',
    summary: 'Get a run with its steps',
    params,
    answers: { 200: answer('The run.', runDetail), 404: unknown },
    handle: async ({ params: { id = '' } }) => Response.json(await runs.detail(id)),
  });

  const events = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}/events',
    operationId: 'readRunEvents',
    summary: 'Stream the events of a run from any line',
    description:
      'Sends existing lines at once and new lines as they occur, over all segments, until none is open: a suspended run has ' +
      'no open segment.',
    params,
    query: { after: 'The last `seq` that you received; absent: from the start.' },
    answers: {
      200: lines('The lines after `after`.'),
      400: refusal('`after` is not the number of a line.'),
      404: unknown,
    },
    async handle({ params: { id = '' }, query, signal, asHttpError }) {
      return await linesResponse(await runs.events(id, afterOf(query), readerSignal(signal)), asHttpError);
    },
  });
  return [list, one, events];
}

function controlRoutes(runs: Runs): Route[] {
  const pause = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/pause',
    operationId: 'pauseRun',
    summary: 'Pause a run at its next step boundary',
    description: 'A paused run keeps the run slot, and resumes automatically after 300 seconds.',
    params,
    answers: {
      202: answer('The pause was requested.', pauseRequested),
      404: refusal('No live run has this id.'),
      409: refusal('The session is not running, or is not a run.'),
    },
    handle: async ({ params: { id = '' }, by }) => Response.json(await runs.pause(id, by), { status: 202 }),
  });

  const resume = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/resume',
    operationId: 'resumeRun',
    summary: 'Resume a paused run, or a run that waits for inputs',
    params,
    body: resumeRequest,
    bodyOptional: true,
    answers: {
      200: answer('The run was resumed; GET its detail or its events.', resumed),
      400: refusal('The inputs do not match the gate; every violation is listed.'),
      404: unknown,
      409: refusal(
        'The run is in a state that cannot be resumed, which the message names, or another run is in flight.',
      ),
    },
    async handle({ params: { id = '' }, body, by, headers }) {
      const trace = traceparentOf(headers.get('traceparent'));
      return Response.json(await runs.resume(id, body.inputs, by, trace));
    },
  });

  const runNow = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/run-now',
    operationId: 'runNow',
    summary: 'Start a cycle of a run that waits at its entry',
    params,
    answers: {
      200: answer('The cycle was started.', dispatched),
      404: unknown,
      409: refusal('The run does not wait at its entry, or another run is in flight.'),
    },
    handle: async ({ params: { id = '' }, by, headers }) =>
      Response.json(await runs.runNow(id, by, traceparentOf(headers.get('traceparent')))),
  });
  return [pause, resume, runNow];
}

/** Yields lines up to the end of the segment, even if the next one has begun. */
async function* oneSegment(
  frames: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const line of frames) {
    yield line;
    if ((JSON.parse(line) as { type: string }).type === 'run_end') return;
  }
}
