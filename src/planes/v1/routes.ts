import { openaiError } from '../error-schema.ts';
import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import type { Plane } from '../route.ts';
import { chatRoute } from './chat.ts';
import { completionsRoute } from './completions.ts';
import { embeddingsRoute } from './embeddings.ts';
import { openaiEnvelope } from './envelope.ts';
import { modelRoutes } from './models.ts';
import { responsesRoutes } from './responses.ts';

export function v1Plane(resident: Resident, store: ModelStore): Plane {
  return {
    name: 'v1',
    summary: "OpenAI's wire: completions and embeddings.",
    prefixes: ['/v1'],
    envelope: openaiEnvelope,
    errorSchema: openaiError,
    routes: [
      ...modelRoutes(resident, store),
      chatRoute(resident),
      completionsRoute(resident),
      ...responsesRoutes(resident),
      embeddingsRoute(resident),
    ],
  };
}
