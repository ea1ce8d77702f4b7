import { hostError } from '../error-schema.ts';
import { hostEnvelope } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import type { Plane } from '../../http/route.ts';
import { configRoutes } from './configs.ts';
import { kernelRoutes } from './kernels.ts';
import { measureRoutes } from './measure.ts';

const unavailableResponses = {
  503: {
    description: 'No model is resident, the model is loading, the lab is not ready, or the GPU was lost.',
    content: { 'application/json': hostError },
  },
};

/** The kernel lab. Without a resident model every route answers 503. */
export function createLabPlane(resident: Resident): Plane {
  const routes = [...kernelRoutes(resident), ...measureRoutes(resident), ...configRoutes(resident)];
  return {
    name: 'lab',
    summary: 'The kernel lab: register, check, bind and measure WGSL kernels on the live graph.',
    prefixes: ['/lab/v1'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: routes.map((route) => ({
      ...route,
      responses: { ...route.responses, ...unavailableResponses },
      beforeBody: () => void resident.requireLab(),
      // Measurements run on the resident model, which must not be swapped meanwhile.
      handle: (request) => {
        resident.pin(request);
        return route.handle(request);
      },
    })),
  };
}
