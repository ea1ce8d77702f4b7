import { unlessAborted } from '../../util/abort.ts';
import type { BenchProgress } from '../../lab/types.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { benchLine, benchResult, parityRunResult } from './answer-schema.ts';
import { benchLines } from './bench-lines.ts';
import { asked } from './refusal.ts';
import { benchRequest, parityMode } from './request-schema.ts';

const mode = { description: 'The parity mode.', content: { 'application/json': parityMode } };

/**
 * Routes for the parity mode and for measurements. Parity runs and benchmarks wait for completions and end when the
 * client disconnects.
 */
export function measureRoutes(resident: Resident) {
  const getMode = defineRoute({
    method: 'GET',
    path: '/lab/v1/parity',
    operationId: 'getLabParityMode',
    summary: 'Get the parity mode of the gate',
    answers: { 200: mode },
    handle: async () => Response.json(await asked(() => resident.requireLab().parityMode)),
  });

  const setMode = (method: 'PUT' | 'POST', operationId: string, summary: string) =>
    defineRoute({
      method,
      path: '/lab/v1/parity',
      operationId,
      summary,
      body: parityMode,
      answers: { 200: mode },
      handle: async ({ body }) => Response.json(await asked(() => resident.requireLab().setParityMode(body))),
    });

  const run = defineRoute({
    method: 'POST',
    path: '/lab/v1/parity/run',
    operationId: 'runLabParity',
    summary: 'Compare the bound kernels on the live graph',
    description: 'Compares each component with its oracle, then the logits of bound and built-in kernels.',
    answers: {
      200: { description: 'The result.', content: { 'application/json': parityRunResult } },
    },
    async handle({ signal }) {
      const lab = resident.requireLab();
      return Response.json(await asked(() => unlessAborted(lab.runParity(signal), signal)));
    },
  });

  const bench = defineRoute({
    method: 'POST',
    path: '/lab/v1/bench',
    operationId: 'runLabBench',
    summary: 'Benchmark the bound kernels against the built-in ones',
    body: benchRequest(() => resident.require().engine.model.contextLength),
    bodyOptional: true,
    answers: {
      200: {
        description: 'The result; with `stream`, a line for every stage and round, and the result last.',
        content: { 'application/json': benchResult, 'application/x-ndjson': benchLine },
      },
    },
    async handle({ body, signal, asHttpError }) {
      const lab = resident.requireLab();
      const { stream = false, ...request } = body;
      const measured = (onProgress?: (progress: BenchProgress) => void) =>
        asked(() => unlessAborted(lab.bench(request, signal, onProgress), signal));
      if (stream) return await benchLines(measured, asHttpError);
      return Response.json(await measured());
    },
  });

  return [
    getMode,
    setMode('PUT', 'setLabParityMode', 'Set the parity mode for later registrations'),
    setMode('POST', 'postLabParityMode', 'Alias of PUT'),
    run,
    bench,
  ];
}
