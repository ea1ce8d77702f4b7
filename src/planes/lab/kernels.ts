import { z } from 'zod';
import { raceAbort } from '../../util/race-abort.ts';
import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import {
  bindOutcome,
  bindRequest,
  cleared,
  deleted,
  formatNames,
  kernelRegistration,
  kernelVersion,
  kernelVersions,
  labGraph,
  labKernel,
  labOps,
  labParts,
  labProfile,
  labStub,
  profileRequest,
  registrationReport,
  someCleared,
  stubTarget,
} from '../../lab/types.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { withHttpErrors } from './http-errors.ts';

const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });

/** Routes for the graph, its ops and the kernels that run it. */
export function kernelRoutes(resident: Resident) {
  const getGraph = defineRoute({
    method: 'GET',
    path: '/lab/v1/graph',
    operationId: 'getLabGraph',
    summary: 'Get the live graph',
    description: 'Includes the currently bound kernels and the spans that one fused kernel can replace.',
    responses: { 200: { description: 'The graph.', content: { 'application/json': labGraph } } },
    handle: async () => Response.json(await withHttpErrors(() => resident.requireLab().graph())),
  });

  const createPartsRoute = (path: string, operationId: string, summary: string) =>
    defineRoute({
      method: 'GET',
      path,
      operationId,
      summary,
      responses: { 200: { description: 'The parts.', content: { 'application/json': labParts } } },
      handle: async () => Response.json(await withHttpErrors(() => resident.requireLab().parts())),
    });

  const registerKernel = defineRoute({
    method: 'POST',
    path: '/lab/v1/kernels',
    operationId: 'registerLabKernel',
    summary: 'Register a kernel',
    description:
      'The kernel passes the gate: parse, interface, safety, pipeline, parity. Disconnecting stops it.',
    body: kernelRegistration(() =>
      resident
        .requireLab()
        .ops()
        .map(({ op }) => op),
    ),
    responses: {
      201: {
        description: 'The report of the gate, whether or not the kernel was accepted.',
        content: { 'application/json': registrationReport },
      },
    },
    async handle({ body, signal }) {
      const lab = resident.requireLab();
      const report = await withHttpErrors(() => raceAbort(lab.register(body, signal), signal));
      return Response.json(report, { status: 201 });
    },
  });

  const profileKernel = defineRoute({
    method: 'POST',
    path: '/lab/v1/profile',
    operationId: 'profileLabKernel',
    summary: 'Profile a registered kernel',
    description:
      'Emulates a few workgroups on a shape of the resident model, in subgroups of any size, and counts what they ask of memory, at each ' +
      'line, beside the built-in kernels for GPUs. Hints name a line, a number and a change. Nothing runs on the GPU.',
    body: profileRequest,
    responses: {
      200: { description: 'The profile.', content: { 'application/json': labProfile } },
      404: errorResponse('No kernel has this name.'),
      409: errorResponse('The emulator cannot run the kernel.'),
    },
    async handle({ body, signal }) {
      const lab = resident.requireLab();
      return Response.json(await withHttpErrors(() => raceAbort(lab.profile(body, signal), signal)));
    },
  });

  const listOps = defineRoute({
    method: 'GET',
    path: '/lab/v1/ops',
    operationId: 'listLabOps',
    summary: 'List the ops that a kernel can be registered for',
    responses: { 200: { description: 'One descriptor per op.', content: { 'application/json': labOps } } },
    handle: async () => Response.json({ ops: await withHttpErrors(() => resident.requireLab().ops()) }),
  });

  const getStub = defineRoute({
    method: 'GET',
    path: '/lab/v1/ops/{op}/stub',
    operationId: 'getLabStub',
    summary: 'Get a kernel stub for an op',
    params: { op: 'An op of GET /lab/v1/ops.' },
    query: {
      target: stubTarget.describe('Default `plain`.'),
      format: z
        .enum(formatNames)
        .describe('Weight format, for ops that read weights. Default: that of the component or the model.'),
      component: 'Id of a component or span: the stub has its weight format.',
    },
    responses: {
      200: { description: 'WGSL that passes the gate unchanged.', content: { 'application/json': labStub } },
      400: errorResponse(
        'The op has no stub for this target, format or component, or the adapter does not support it.',
      ),
      404: errorResponse('No op has this name.'),
      409: errorResponse('The component has another op.'),
    },
    async handle({ params, query }) {
      const one = (name: string): string | undefined => {
        const values = query.getAll(name);
        if (values.length > 1)
          throw new HttpError(400, 'invalid_target', `${name}: expected one, got ${values.length}.`);
        return values[0];
      };
      const options = { target: one('target'), format: one('format'), component: one('component') };
      const lab = resident.requireLab();
      return Response.json(await withHttpErrors(() => lab.stub(params['op'] ?? '', options)));
    },
  });

  const nameParam = { name: 'Name of a registered kernel.' };
  const getKernel = defineRoute({
    method: 'GET',
    path: '/lab/v1/kernels/{name}',
    operationId: 'getLabKernel',
    summary: 'Get a registered kernel',
    description:
      'Its registration with the source, the last report of the gate, its state, and the components that it runs.',
    params: nameParam,
    responses: {
      200: { description: 'The kernel.', content: { 'application/json': labKernel } },
      404: errorResponse('No kernel has this name.'),
    },
    handle: async ({ params }) =>
      Response.json(await withHttpErrors(() => resident.requireLab().kernel(params['name'] ?? ''))),
  });

  const listVersions = defineRoute({
    method: 'GET',
    path: '/lab/v1/kernels/{name}/versions',
    operationId: 'listLabKernelVersions',
    summary: 'List the registrations of a kernel',
    description:
      'With sources and benches, also of earlier processes. Registrations that the gate rejected are among them: the newest 200 of a name are kept.',
    params: { name: 'Name of a kernel, or the digest (`sha256:...`) of one of its registrations.' },
    responses: {
      200: { description: 'The versions.', content: { 'application/json': kernelVersions } },
      404: errorResponse('No kernel has or had this name.'),
    },
    handle: async ({ params }) =>
      Response.json(await withHttpErrors(() => resident.requireLab().versions(params['name'] ?? ''))),
  });

  const getVersion = defineRoute({
    method: 'GET',
    path: '/lab/v1/kernels/{name}/versions/{at}',
    operationId: 'getLabKernelVersion',
    summary: 'Get a registration of a kernel with its report',
    description: 'Also of a kernel that the gate rejected, that was replaced, or that was deleted.',
    params: { ...nameParam, at: 'When it was registered, as the list of versions has it.' },
    responses: {
      200: { description: 'The registration.', content: { 'application/json': kernelVersion } },
      404: errorResponse('No kernel has this name, or it was not registered then.'),
    },
    handle: async ({ params }) =>
      Response.json(
        await withHttpErrors(() => resident.requireLab().version(params['name'] ?? '', params['at'] ?? '')),
      ),
  });

  const deleteKernel = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/kernels/{name}',
    operationId: 'deleteLabKernel',
    summary: 'Delete a registered kernel',
    params: nameParam,
    responses: {
      200: { description: 'The kernel is deleted.', content: { 'application/json': deleted } },
      404: errorResponse('No kernel has this name.'),
      409: errorResponse('The kernel is bound.'),
    },
    async handle({ params }) {
      await withHttpErrors(() => resident.requireLab().deleteKernel(params['name'] ?? ''));
      return Response.json({ deleted: true });
    },
  });

  const bindKernel = defineRoute({
    method: 'POST',
    path: '/lab/v1/bindings',
    operationId: 'bindLabKernel',
    summary: 'Bind a registered kernel',
    description:
      'Binds to components or to a fused span, to all of them or none. Takes effect between two tokens. The first binding after a ' +
      'registration waits until no completion runs, and checks that the model still computes the same with the kernel wherever it fits.',
    body: bindRequest,
    responses: {
      200: { description: 'The kernel was bound.', content: { 'application/json': bindOutcome } },
      404: errorResponse('No kernel has this name.'),
      409: errorResponse('The kernel is not bindable, or does not fit one of the components.'),
    },
    async handle({ body, signal }) {
      const lab = resident.requireLab();
      return Response.json(await withHttpErrors(() => raceAbort(lab.bind(body, signal), signal)));
    },
  });

  const unbindKernels = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/bindings',
    operationId: 'unbindLabKernels',
    summary: 'Restore the built-in kernels',
    responses: {
      200: { description: 'All components run built-in kernels.', content: { 'application/json': cleared } },
    },
    async handle() {
      await withHttpErrors(() => resident.requireLab().unbind());
      return Response.json({ cleared: true });
    },
  });

  const unbindComponents = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/bindings/{component}',
    operationId: 'unbindLabComponents',
    summary: 'Restore the built-in kernels of some components',
    params: { component: 'Id of a bound component or span, or a glob over them.' },
    responses: {
      200: {
        description: 'The components that run built-in kernels now.',
        content: { 'application/json': someCleared },
      },
      400: errorResponse('No bound component matches.'),
    },
    async handle({ params }) {
      const components = await withHttpErrors(() =>
        resident.requireLab().unbindSome(params['component'] ?? ''),
      );
      return Response.json({ cleared: true, components });
    },
  });

  return [
    getGraph,
    createPartsRoute('/lab/v1/parts', 'getLabParts', 'List components, slots and registered kernels'),
    createPartsRoute('/lab/v1/kernels', 'getLabKernels', 'Alias of GET /lab/v1/parts'),
    registerKernel,
    profileKernel,
    listOps,
    getStub,
    getKernel,
    listVersions,
    getVersion,
    deleteKernel,
    bindKernel,
    unbindKernels,
    unbindComponents,
  ];
}
