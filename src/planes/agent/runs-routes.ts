import { z } from 'zod';
import { runDetail, runEvent, runRecord } from '../../agent/shapes/run.ts';
import { parseTraceparent } from '../../tracing/index.ts';
import type { WorkflowRuns } from '../../agent/workflows/running/runs.ts';
import { hostError } from '../error-schema.ts';
import { type ResponseSpec, defineRoute, type Route } from '../../http/route.ts';
import { ndjsonType } from '../../http/stream.ts';
import { idempotencyKeyDescription, readIdempotencyKey } from './idempotency-key.ts';
import { linesUntil, readAfter, streamLines } from './lines-response.ts';
import { createReaderSignal } from './reader-signal.ts';
import {
  dispatched,
  newSignal,
  pauseRequested,
  resumed,
  resumeRequest,
  runRequest,
  signalled,
} from './runs-schema.ts';
import { readIntegerQuery } from './integer-query.ts';

const params = { id: 'Id of the run, such as r1700000000000000000.' };
const limitRange = { min: 1, max: 1000, defaultValue: 100 };
const jsonResponse = (description: string, schema: z.ZodType): ResponseSpec => ({
  description,
  content: { 'application/json': schema },
});
const errorResponse = (description: string) => jsonResponse(description, hostError);
const lineStreamResponse = (description: string): ResponseSpec => ({
  description,
  content: { [ndjsonType]: runEvent },
});
const notFoundResponse = errorResponse('No run has this id.');

/** Routes that start, read and control workflow runs. */
export function runsRoutes({ runs }: { readonly runs: WorkflowRuns }): Route[] {
  return [...startRoutes(runs), ...readRoutes(runs), ...controlRoutes(runs)];
}

function startRoutes(runs: WorkflowRuns): Route[] {
  const startRun = defineRoute({
    method: 'POST',
    path: '/agent/v1/workflows/{name}/runs',
    operationId: 'runWorkflow',
    summary: 'Run an enabled workflow',
    description:
      'Streams a line for each event of the segment, from `run_start` to `run_end`. The run continues when the client ' +
      'disconnects. `x-svc-session` is the id of its store session and `x-svc-session-secret` the credential to revoke it, ' +
      'sent only once. With an `Idempotency-Key`, a repeated request starts no second run: the stream of the first is replayed. A name that is not enabled is answered like an unknown name.',
    params: { name: 'Name of the workflow.' },
    headers: { 'Idempotency-Key': idempotencyKeyDescription },
    body: runRequest,
    isBodyOptional: true,
    responses: {
      200: lineStreamResponse('The stream of the first segment.'),
      400: errorResponse('The body or the inputs are invalid; every violation is listed.'),
      404: errorResponse('No enabled workflow has this name.'),
      409: errorResponse(
        'A run is in flight, `retried_from` is not a failed run, the workflow cannot be read, or the Idempotency-Key was used with a different request.',
      ),
    },
    beforeBody: async ({ params: { name = '' } }) => await runs.requireCallable(name),
    async handle({ params: { name = '' }, body, by, headers, signal, asHttpError }) {
      const traceparent = parseTraceparent(headers.get('traceparent'));
      const key = readIdempotencyKey(headers);
      const { id, sessionId, capability } = await runs.start(name, body, by, traceparent, key);
      const storedLines = await runs.events(id, -1, createReaderSignal(signal));
      const response = await streamLines(linesUntil(storedLines, 'run_end'), asHttpError);
      if (sessionId !== undefined) response.headers.set('x-svc-session', sessionId);
      if (capability !== undefined) response.headers.set('x-svc-session-secret', capability);
      return response;
    },
  });

  const emitEvent = defineRoute({
    method: 'POST',
    path: '/agent/v1/events',
    operationId: 'emitEvent',
    summary: 'Emit an event to waiting runs',
    body: newSignal,
    responses: {
      202: jsonResponse('The event was stored; runs that wait for it continue in turn.', signalled),
      400: errorResponse('The body is invalid.'),
    },
    async handle({ body: { name, data } }) {
      return Response.json({ name, seq: await runs.emitSignal(name, data) }, { status: 202 });
    },
  });
  return [startRun, emitEvent];
}

function readRoutes(runs: WorkflowRuns): Route[] {
  const listRuns = defineRoute({
    method: 'GET',
    path: '/agent/v1/workflows/runs',
    operationId: 'listRuns',
    summary: 'List runs, newest first',
    query: {
      limit: `Maximum number of runs, from ${limitRange.min} to ${limitRange.max}; default ${limitRange.defaultValue}.`,
    },
    responses: {
      200: jsonResponse('The journal.', z.array(runRecord).meta({ id: 'RunRecords' })),
      400: errorResponse('`limit` is out of range or not a number.'),
    },
    handle: async ({ query }) => Response.json(await runs.list(readIntegerQuery(query, 'limit', limitRange))),
  });

  const getRun = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}',
    operationId: 'getRun',
    summary: 'Get a run with its steps',
    params,
    responses: { 200: jsonResponse('The run.', runDetail), 404: notFoundResponse },
    handle: async ({ params: { id = '' } }) => Response.json(await runs.detail(id)),
  });

  const readEvents = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}/events',
    operationId: 'readRunEvents',
    summary: 'Stream the events of a run from any line',
    description:
      'Sends existing lines at once and new lines as they occur, over all segments, until none is open: a suspended run has ' +
      'no open segment.',
    params,
    query: { after: 'The last `seq` that you received; absent: from the start.' },
    responses: {
      200: lineStreamResponse('The lines after `after`.'),
      400: errorResponse('`after` is not the number of a line.'),
      404: notFoundResponse,
    },
    async handle({ params: { id = '' }, query, signal, asHttpError }) {
      return await streamLines(
        await runs.events(id, readAfter(query), createReaderSignal(signal)),
        asHttpError,
      );
    },
  });
  return [listRuns, getRun, readEvents];
}

function controlRoutes(runs: WorkflowRuns): Route[] {
  const pauseRun = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/pause',
    operationId: 'pauseRun',
    summary: 'Pause a run at its next step boundary',
    description: 'A paused run keeps the run slot, and resumes automatically after 300 seconds.',
    params,
    responses: {
      202: jsonResponse('The pause was requested.', pauseRequested),
      404: errorResponse('No live run has this id.'),
      409: errorResponse('The session is not running, or is not a run.'),
    },
    handle: async ({ params: { id = '' }, by }) => Response.json(await runs.pause(id, by), { status: 202 }),
  });

  const resumeRun = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/resume',
    operationId: 'resumeRun',
    summary: 'Resume a paused run, or a run that waits for inputs',
    params,
    body: resumeRequest,
    isBodyOptional: true,
    responses: {
      200: jsonResponse('The run was resumed; GET its detail or its events.', resumed),
      400: errorResponse('The inputs do not match the gate; every violation is listed.'),
      404: notFoundResponse,
      409: errorResponse(
        'The run is in a state that cannot be resumed, which the message names, or another run is in flight.',
      ),
    },
    async handle({ params: { id = '' }, body, by, headers }) {
      const traceparent = parseTraceparent(headers.get('traceparent'));
      return Response.json(await runs.resume(id, body.inputs, by, traceparent));
    },
  });

  const runNow = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/run-now',
    operationId: 'runNow',
    summary: 'Start a cycle of a run that waits at its entry',
    params,
    responses: {
      200: jsonResponse('The cycle was started.', dispatched),
      404: notFoundResponse,
      409: errorResponse('The run does not wait at its entry, or another run is in flight.'),
    },
    handle: async ({ params: { id = '' }, by, headers }) =>
      Response.json(await runs.runNow(id, by, parseTraceparent(headers.get('traceparent')))),
  });
  return [pauseRun, resumeRun, runNow];
}
