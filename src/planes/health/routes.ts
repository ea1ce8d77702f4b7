import { llamaEnvelope, llamaError } from '../../wires/llama-cpp/error.ts';
import { loading, type Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { health } from './schema.ts';

/** @param planes the names of what is mounted beside it */
export function healthPlane(resident: Resident, planes: readonly string[]): Plane {
  return {
    name: 'health',
    summary: 'Liveness.',
    prefixes: ['/health'],
    envelope: llamaEnvelope,
    errorSchema: llamaError,
    routes: [healthRoute(resident, planes, { path: '/health', operationId: 'getHealth' })],
  };
}

/** Under whatever path clients look for it. */
export function healthRoute(
  resident: Resident,
  planes: readonly string[],
  place: { path: string; operationId: string },
) {
  return defineRoute({
    method: 'GET',
    ...place,
    summary: 'Is the host alive?',
    description:
      'While the first model loads it answers 503, with the body that clients of llama.cpp wait on.',
    answers: {
      200: {
        description: 'Alive, and the model, if there is one, was loaded.',
        content: { 'application/json': health },
      },
      503: { description: 'The model is loading.', content: { 'application/json': llamaError } },
    },
    handle() {
      const { state } = resident;
      // A host that changes its model is alive: requests wait for it.
      if (state.kind === 'loading' && state.first) throw loading();
      return Response.json({ status: 'ok', planes });
    },
  });
}
