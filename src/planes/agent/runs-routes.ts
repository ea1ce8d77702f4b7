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

const params = { id: 'Of the run: r1700000000000000000.' };
const listed = { least: 1, most: 1000, otherwise: 100 };
const answer = (description: string, schema: z.ZodType): AnswerSpec => ({
  description,
  content: { 'application/json': schema },
});
const refusal = (description: string) => answer(description, hostError);
const lines = (description: string): AnswerSpec => ({ description, content: { [jsonLines]: runEvent } });
const unknown = refusal('There is no such run.');

/** Runs of workflows: begun, looked at, steered. */
export function runsRoutes({ runs }: { readonly runs: Runs }): Route[] {
  return [...startRoutes(runs), ...readRoutes(runs), ...controlRoutes(runs)];
}

function startRoutes(runs: Runs): Route[] {
  const start = defineRoute({
    method: 'POST',
    path: '/agent/v1/workflows/{name}/runs',
    operationId: 'runWorkflow',
    summary: 'Run a workflow that is enabled',
    description:
      'A line for each event of the segment, from `run_start` to `run_end`. The run goes on when the client goes ' +
      'away. `x-svc-session` names its store session and `x-svc-session-secret` is the credential to revoke it with, ' +
      'told once. A name that is not enabled is answered like one that is not there.',
    params: { name: 'The name of a workflow.' },
    body: runRequest,
    bodyOptional: true,
    answers: {
      200: lines('The stream of the first segment.'),
      400: refusal('The body or the inputs do not fit; every violation is named.'),
      404: refusal('There is no workflow of this name that may be run.'),
      409: refusal(
        'A run is in flight, `retried_from` is no run that failed, or the workflow cannot be read.',
      ),
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
    summary: 'Tell runs that wait for an event that it has happened',
    body: newSignal,
    answers: {
      202: answer('It is noted; runs that wait for it go on when it is their turn.', signalled),
      400: refusal('The body does not fit.'),
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
    summary: 'Runs, the newest first',
    query: { limit: `At most so many, from ${listed.least} to ${listed.most}; default ${listed.otherwise}.` },
    answers: {
      200: answer('The journal.', z.array(runRecord).meta({ id: 'RunRecords' })),
      400: refusal('`limit` is no such number.'),
    },
    handle: async ({ query }) => Response.json(await runs.list(wholeQuery(query, 'limit', listed))),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}',
    operationId: 'getRun',
    summary: 'A run, and what its steps did',
    params,
    answers: { 200: answer('The run.', runDetail), 404: unknown },
    handle: async ({ params: { id = '' } }) => Response.json(await runs.detail(id)),
  });

  const events = defineRoute({
    method: 'GET',
    path: '/agent/v1/runs/{id}/events',
    operationId: 'readRunEvents',
    summary: 'The stream of a run, from any line on',
    description:
      'What is there at once, and what comes as it comes, over all segments, until none is open: a suspended run has ' +
      'no open one.',
    params,
    query: { after: 'The last `seq` that you have; absent: from the start.' },
    answers: {
      200: lines('The lines after that one.'),
      400: refusal('`after` is no number of a line.'),
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
    description: 'It keeps its place, and goes on by itself after 300 seconds.',
    params,
    answers: {
      202: answer('It will.', pauseRequested),
      404: refusal('There is no such live run.'),
      409: refusal('It is not running, or no run.'),
    },
    handle: async ({ params: { id = '' }, by }) => Response.json(await runs.pause(id, by), { status: 202 }),
  });

  const resume = defineRoute({
    method: 'POST',
    path: '/agent/v1/runs/{id}/resume',
    operationId: 'resumeRun',
    summary: 'Let a paused run go on, or one that waits for inputs',
    params,
    body: resumeRequest,
    bodyOptional: true,
    answers: {
      200: answer('It goes on; GET its detail, or its events.', resumed),
      400: refusal('The inputs do not fit what the gate asks for; every violation is named.'),
      404: unknown,
      409: refusal(
        'It is in a state in which it is not resumed, which the message names; or another run is in flight.',
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
    summary: 'Begin a cycle of a run that waits at its entry',
    params,
    answers: {
      200: answer('The cycle has begun.', dispatched),
      404: unknown,
      409: refusal('It does not wait at its entry, or another run is in flight.'),
    },
    handle: async ({ params: { id = '' }, by, headers }) =>
      Response.json(await runs.runNow(id, by, traceparentOf(headers.get('traceparent')))),
  });
  return [pause, resume, runNow];
}

/** Up to the end of the segment, though the next one may have begun. */
async function* oneSegment(
  frames: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const line of frames) {
    yield line;
    if ((JSON.parse(line) as { type: string }).type === 'run_end') return;
  }
}
