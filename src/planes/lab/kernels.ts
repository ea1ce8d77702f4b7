import { unlessAborted } from '../../util/abort.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  bindOutcome,
  cleared,
  labGraph,
  labOps,
  labParts,
  labStub,
  registrationReport,
} from './answer-schema.ts';
import { asked } from './refusal.ts';
import { bindRequest, kernelRegistration } from './request-schema.ts';

const refusal = (description: string) => ({ description, content: { 'application/json': hostError } });

/** The graph, its ops, and the kernels that run it. */
export function kernelRoutes(resident: Resident) {
  const graph = defineRoute({
    method: 'GET',
    path: '/lab/v1/graph',
    operationId: 'getLabGraph',
    summary: 'The live graph',
    description: 'With the kernels that are bound now, and the spans that one kernel can take over.',
    answers: { 200: { description: 'The graph.', content: { 'application/json': labGraph } } },
    handle: async () => Response.json(await asked(() => resident.requireLab().graph())),
  });

  const parts = (path: string, operationId: string, summary: string) =>
    defineRoute({
      method: 'GET',
      path,
      operationId,
      summary,
      answers: { 200: { description: 'The parts.', content: { 'application/json': labParts } } },
      handle: async () => Response.json(await asked(() => resident.requireLab().parts())),
    });

  const register = defineRoute({
    method: 'POST',
    path: '/lab/v1/kernels',
    operationId: 'registerLabKernel',
    summary: 'Register a kernel',
    description:
      'The kernel goes through the gate: parse, interface, safety, pipeline, parity. Leaving the connection stops it.',
    body: kernelRegistration(() =>
      resident
        .requireLab()
        .ops()
        .map(({ op }) => op),
    ),
    answers: {
      201: {
        description: 'What the gate found, also when it did not accept the kernel.',
        content: { 'application/json': registrationReport },
      },
    },
    async handle({ body, signal }) {
      const lab = resident.requireLab();
      const report = await asked(() => unlessAborted(lab.register(body, signal), signal));
      return Response.json(report, { status: 201 });
    },
  });

  const ops = defineRoute({
    method: 'GET',
    path: '/lab/v1/ops',
    operationId: 'listLabOps',
    summary: 'The ops that a kernel can be registered for',
    answers: { 200: { description: 'A descriptor an op.', content: { 'application/json': labOps } } },
    handle: async () => Response.json({ ops: await asked(() => resident.requireLab().ops()) }),
  });

  const stub = defineRoute({
    method: 'GET',
    path: '/lab/v1/ops/{op}/stub',
    operationId: 'getLabStub',
    summary: 'A kernel to start from',
    params: { op: 'As GET /lab/v1/ops lists it.' },
    query: { target: 'What the stub is written for, for example `f16` or `subgroups`.' },
    answers: {
      200: { description: 'WGSL that passes the gate as it is.', content: { 'application/json': labStub } },
      400: refusal('The op has no stub for this target, or the adapter does not support it.'),
      404: refusal('No such op.'),
    },
    async handle({ params, query }) {
      const targets = query.getAll('target');
      if (targets.length > 1)
        throw new HttpError(400, 'invalid_target', `target: expected one, got ${targets.length}.`);
      const lab = resident.requireLab();
      return Response.json(await asked(() => lab.stub(params['op'] ?? '', targets[0])));
    },
  });

  const bind = defineRoute({
    method: 'POST',
    path: '/lab/v1/bindings',
    operationId: 'bindLabKernel',
    summary: 'Bind a registered kernel',
    description: 'To components, or to a fused span: all of them or none. Takes effect between two tokens.',
    body: bindRequest,
    answers: {
      200: { description: 'The kernel runs there now.', content: { 'application/json': bindOutcome } },
      404: refusal('No such kernel.'),
      409: refusal('The kernel is not bindable, or does not fit one of the components.'),
    },
    async handle({ body }) {
      const lab = resident.requireLab();
      return Response.json(await asked(() => lab.bind(body)));
    },
  });

  const unbind = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/bindings',
    operationId: 'unbindLabKernels',
    summary: 'Bring the built-in kernels back',
    answers: {
      200: { description: 'Everything runs on built-ins.', content: { 'application/json': cleared } },
    },
    async handle() {
      await asked(() => resident.requireLab().unbind());
      return Response.json({ cleared: true });
    },
  });

  return [
    graph,
    parts('/lab/v1/parts', 'getLabParts', 'Components, slots and registered kernels'),
    parts('/lab/v1/kernels', 'getLabKernels', 'The same as GET /lab/v1/parts'),
    register,
    ops,
    stub,
    bind,
    unbind,
  ];
}
