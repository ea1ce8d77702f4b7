import { llamaEnvelope, llamaError } from '../../wires/llama-cpp/error.ts';
import { modelLoadingError, type Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { health } from './schema.ts';

/** @param planes names of the mounted planes */
export function createHealthPlane(resident: Resident, planes: readonly string[]): Plane {
  return {
    name: 'health',
    summary: 'Liveness.',
    isPublicWire: true,
    prefixes: ['/health'],
    envelope: llamaEnvelope,
    errorSchema: llamaError,
    routes: [healthRoute(resident, planes, { path: '/health', operationId: 'getHealth' })],
  };
}

/** The liveness route, mounted under the paths that clients use. */
export function healthRoute(
  resident: Resident,
  planes: readonly string[],
  endpoint: { path: string; operationId: string },
) {
  return defineRoute({
    method: 'GET',
    ...endpoint,
    summary: 'Check that the host is alive',
    description: "Answers 503 while the first model loads, with the body that llama.cpp's clients expect.",
    responses: {
      200: {
        description: 'The host is alive, and its model, if any, is loaded.',
        content: { 'application/json': health },
      },
      503: { description: 'The model is loading.', content: { 'application/json': llamaError } },
    },
    handle() {
      const { state } = resident;
      // During a swap the host is alive, because requests wait for the model.
      if (state.kind === 'loading' && state.isFirst) throw modelLoadingError();
      return Response.json({ status: 'ok', planes });
    },
  });
}
