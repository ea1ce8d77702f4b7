import { llamaEnvelope, llamaError } from '../../wires/llama-cpp/error.ts';
import { healthRoute } from '../health/routes.ts';
import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import type { Plane } from '../../http/route.ts';
import { completionRoutes } from './completion.ts';
import { embeddingRoutes } from './embedding.ts';
import { infillRoute } from './infill.ts';
import { serverRoutes } from './server.ts';
import { templateRoute } from './template.ts';
import { tokenRoutes } from './tokens.ts';

export interface LlamaCppPlaneOptions {
  readonly resident: Resident;
  readonly store: ModelStore;
  readonly version: string;
  /** Planes that `GET /v1/health` lists, as `GET /health` does. */
  readonly planes: readonly string[];
}

export function llamaCppPlane({ resident, store, version, planes }: LlamaCppPlaneOptions): Plane {
  const routes = [
    ...completionRoutes(resident),
    infillRoute(resident),
    ...embeddingRoutes(resident),
    ...tokenRoutes(resident),
    templateRoute(resident),
    ...serverRoutes(resident, store, version),
    healthRoute(resident, planes, { path: '/v1/health', operationId: 'llamaCppHealth' }),
  ];
  return {
    name: 'llama-cpp',
    summary: "llama.cpp's wire: completions, infill, embeddings, tokens.",
    isPublicWire: true,
    prefixes: [...new Set(routes.map(({ path }) => path))],
    envelope: llamaEnvelope,
    errorSchema: llamaError,
    absentRoutes: ['/models/load', '/models/unload', '/v1/models/load', '/v1/models/unload'].map((path) => ({
      method: 'POST',
      path,
      reason: 'the host serves one model, and with --swap it loads the one that a request names',
    })),
    routes,
  };
}
