import { unlessAborted } from '../abort.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../route.ts';
import { benchResult, parityRunResult } from './answer-schema.ts';
import { asked } from './refusal.ts';
import { benchRequest, parityMode } from './request-schema.ts';

const mode = { description: 'The parity mode.', content: { 'application/json': parityMode } };

/** The gate's mode, and what runs the model: parity runs and benches wait for completions and end with the client. */
export function measureRoutes(resident: Resident) {
  const getMode = defineRoute({
    method: 'GET',
    path: '/lab/v1/parity',
    operationId: 'getLabParityMode',
    summary: 'How the gate compares',
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
    description: 'Each component against its oracle, then the logits of bound against built-in kernels.',
    answers: {
      200: { description: 'The outcome.', content: { 'application/json': parityRunResult } },
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
    summary: 'Measure the bound kernels against the built-ins',
    body: benchRequest(() => resident.require().engine.model.contextLength),
    bodyOptional: true,
    answers: { 200: { description: 'The outcome.', content: { 'application/json': benchResult } } },
    async handle({ body, signal }) {
      const lab = resident.requireLab();
      return Response.json(await asked(() => unlessAborted(lab.bench(body, signal), signal)));
    },
  });

  return [
    getMode,
    setMode('PUT', 'setLabParityMode', 'Change how the gate compares later registrations'),
    setMode('POST', 'postLabParityMode', 'The same as PUT'),
    run,
    bench,
  ];
}
