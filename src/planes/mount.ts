import { docsPlane } from './docs/routes.ts';
import { healthPlane } from './health/routes.ts';
import { hostPlane } from './host/routes.ts';
import { llamaCppPlane } from './llama-cpp/routes.ts';
import type { ModelStore } from './model-store.ts';
import { ollamaPlane } from './ollama/routes.ts';
import type { Resident } from './resident.ts';
import type { Plane } from './route.ts';
import type { Served } from './served.ts';
import { labPlane } from './lab/routes.ts';
import { messagesPlane } from './messages/routes.ts';
import { v1Plane } from './v1/routes.ts';

export interface HostFacts {
  readonly resident: Resident;
  readonly store: ModelStore;
  readonly served: Served;
  readonly version: string;
  readonly endpointId: string;
}

/** What the host says that it can do. */
const planeNames = ['host', 'v1', 'messages', 'ollama', 'llama-cpp', 'lab'];

/** Every plane of the main listener. A new plane is one line here. */
export function hostPlanes({ resident, store, served, version, endpointId }: HostFacts): Plane[] {
  const planes = [
    healthPlane(resident, planeNames),
    hostPlane({ resident, served, version, endpointId, capabilities: planeNames }),
    // Before the plane of all of `/v1`: its envelope is the first that fits.
    messagesPlane(resident, served),
    llamaCppPlane({ resident, served, store, version, planes: planeNames }),
    v1Plane(resident, served, store),
    ollamaPlane({ resident, served, store, version }),
    labPlane(resident),
  ];
  return [...planes, docsPlane(planes, version)];
}

/** What the control socket serves: the operator's view, no completions. */
export function controlPlanes({ resident, served, version, endpointId }: HostFacts): Plane[] {
  return [
    healthPlane(resident, ['host']),
    hostPlane({ resident, served, version, endpointId, capabilities: planeNames }),
  ];
}
