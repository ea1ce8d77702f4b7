import { raceAbort } from '../../util/race-abort.ts';
import {
  benchCancelled,
  type BenchProgress,
  benchRecord,
  benchRequest,
  benchResult,
  benchSummaries,
  parityMode,
  parityRunResult,
  runningBenches,
} from '../../lab/types.ts';
import { hostError } from '../error-schema.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { benchLine, streamBench } from './bench-lines.ts';
import { withHttpErrors } from './http-errors.ts';

const modeResponse = { description: 'The parity mode.', content: { 'application/json': parityMode } };

/**
 * Routes for the parity mode and for measurements. Parity runs and benchmarks wait for completions and end when the
 * client disconnects.
 */
export function measureRoutes(resident: Resident) {
  const getParityMode = defineRoute({
    method: 'GET',
    path: '/lab/v1/parity',
    operationId: 'getLabParityMode',
    summary: 'Get the parity mode of the gate',
    responses: { 200: modeResponse },
    handle: async () => Response.json(await withHttpErrors(() => resident.requireLab().parityMode)),
  });

  const createSetModeRoute = (method: 'PUT' | 'POST', operationId: string, summary: string) =>
    defineRoute({
      method,
      path: '/lab/v1/parity',
      operationId,
      summary,
      body: parityMode,
      responses: { 200: modeResponse },
      handle: async ({ body }) =>
        Response.json(await withHttpErrors(() => resident.requireLab().setParityMode(body))),
    });

  const runParity = defineRoute({
    method: 'POST',
    path: '/lab/v1/parity/run',
    operationId: 'runLabParity',
    summary: 'Compare the bound kernels on the live graph',
    description: 'Compares each component with its oracle, then the logits of bound and built-in kernels.',
    responses: {
      200: { description: 'The result.', content: { 'application/json': parityRunResult } },
    },
    async handle({ signal }) {
      const lab = resident.requireLab();
      return Response.json(await withHttpErrors(() => raceAbort(lab.runParity(signal), signal)));
    },
  });

  const runBench = defineRoute({
    method: 'POST',
    path: '/lab/v1/bench',
    operationId: 'runLabBench',
    summary: 'Benchmark the bound kernels against the built-in ones',
    body: benchRequest(() => resident.requireModel().engine.model.contextLength),
    isBodyOptional: true,
    responses: {
      200: {
        description: 'The result; with `stream`, a line for every stage and round, and the result last.',
        content: { 'application/json': benchResult, 'application/x-ndjson': benchLine },
      },
      409: {
        description: 'The bench was cancelled, or the model generates no text.',
        content: { 'application/json': hostError },
      },
    },
    async handle({ body, signal, asHttpError }) {
      const lab = resident.requireLab();
      const { stream = false, ...request } = body;
      const measure = (onProgress?: (progress: BenchProgress) => void) =>
        withHttpErrors(() => raceAbort(lab.bench(request, signal, onProgress), signal));
      if (stream) return await streamBench(measure, asHttpError);
      return Response.json(await measure());
    },
  });

  const listBenches = defineRoute({
    method: 'GET',
    path: '/lab/v1/bench',
    operationId: 'listLabBenches',
    summary: 'List the benches that run or wait',
    responses: { 200: { description: 'The benches.', content: { 'application/json': runningBenches } } },
    handle: async () =>
      Response.json({ benches: await withHttpErrors(() => resident.requireLab().benches()) }),
  });

  const cancelBench = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/bench/{id}',
    operationId: 'cancelLabBench',
    summary: 'Cancel a bench',
    description: 'Its request fails with 409 `bench_cancelled`.',
    params: { id: 'Of GET /lab/v1/bench, or of the first line of a streamed bench.' },
    responses: {
      200: { description: 'The bench ends.', content: { 'application/json': benchCancelled } },
      404: { description: 'No such bench is running.', content: { 'application/json': hostError } },
    },
    async handle({ params }) {
      await withHttpErrors(() => resident.requireLab().cancelBench(params['id'] ?? ''));
      return Response.json({ cancelled: true });
    },
  });

  const listFinished = defineRoute({
    method: 'GET',
    path: '/lab/v1/benches',
    operationId: 'listFinishedLabBenches',
    summary: 'List the finished benches',
    description:
      'Also of earlier processes. The newest 200 are kept with their raw times. A bench of one round is not listed.',
    responses: { 200: { description: 'The benches.', content: { 'application/json': benchSummaries } } },
    handle: async () =>
      Response.json({ benches: await withHttpErrors(() => resident.requireLab().finishedBenches()) }),
  });

  const getFinished = defineRoute({
    method: 'GET',
    path: '/lab/v1/benches/{id}',
    operationId: 'getFinishedLabBench',
    summary: 'Get a finished bench',
    description: 'With its result, its machine, what was bound, and the raw times of all rounds.',
    params: { id: 'Of GET /lab/v1/benches.' },
    responses: {
      200: { description: 'The bench.', content: { 'application/json': benchRecord } },
      404: { description: 'No such bench is stored.', content: { 'application/json': hostError } },
    },
    handle: async ({ params }) =>
      Response.json(await withHttpErrors(() => resident.requireLab().finishedBench(params['id'] ?? ''))),
  });

  return [
    getParityMode,
    createSetModeRoute('PUT', 'setLabParityMode', 'Set the parity mode for later registrations'),
    createSetModeRoute('POST', 'postLabParityMode', 'Alias of PUT'),
    runParity,
    runBench,
    listBenches,
    cancelBench,
    listFinished,
    getFinished,
  ];
}
