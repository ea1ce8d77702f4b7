import { healthError } from '../error-schema.ts';
import type { Envelope } from '../problem.ts';
import { loading, type Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../route.ts';
import { health } from './schema.ts';

/** llama.cpp's envelope, which its clients poll for. */
const envelope: Envelope = ({ status, message }) => ({
  error: { code: status, message, type: status === 503 ? 'unavailable_error' : 'invalid_request_error' },
});

/** @param planes the names of what is mounted beside it */
export function healthPlane(resident: Resident, planes: readonly string[]): Plane {
  const getHealth = defineRoute({
    method: 'GET',
    path: '/health',
    operationId: 'getHealth',
    summary: 'Is the host alive?',
    description: 'While a model loads it answers 503, with the body that clients of llama.cpp wait on.',
    answers: {
      200: {
        description: 'Alive, and the model, if there is one, is loaded.',
        content: { 'application/json': health },
      },
      503: { description: 'The model is loading.', content: { 'application/json': healthError } },
    },
    handle() {
      if (resident.state.kind === 'loading') throw loading();
      return Response.json({ status: 'ok', planes });
    },
  });
  return {
    name: 'health',
    summary: 'Liveness.',
    prefix: '/health',
    envelope,
    errorSchema: healthError,
    routes: [getHealth],
  };
}
