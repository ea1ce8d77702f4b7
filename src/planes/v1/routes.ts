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
    absent: [
      {
        method: 'POST',
        path: '/v1/responses/compact',
        why: 'this host shortens no conversation; send a shorter one to POST /v1/responses',
      },
      {
        method: 'POST',
        path: '/v1/responses/input_tokens',
        why: 'POST /v1/messages/count_tokens counts the tokens of a conversation, and the usage of every answer tells them',
      },
    ],
    routes: [
      ...modelRoutes(resident, store),
      chatRoute(resident),
      completionsRoute(resident),
      ...responsesRoutes(resident),
      embeddingsRoute(resident),
    ],
  };
}
