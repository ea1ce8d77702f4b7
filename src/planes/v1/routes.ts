import type { HostedTools } from '../../agent/hosted-tools.ts';
import { openaiError } from '../error-schema.ts';
import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import type { Plane, Route } from '../../http/route.ts';
import { errorObject } from '../../wires/core/error.ts';
import { chatRoute } from './chat.ts';
import { completionsRoute } from './completions.ts';
import { embeddingsRoute } from './embeddings.ts';
import { modelRoutes } from './models.ts';
import { responsesRoutes } from './responses.ts';

/**
 * Routes that llama.cpp also serves without `/v1`; there, `/completions`, `/embeddings` and `/models` belong to its own
 * wire.
 */
const unprefixedOperations: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'llamaCppChatCompletions',
  '/v1/responses': 'llamaCppResponses',
};

function withUnprefixed(routes: readonly Route[]): Route[] {
  const unprefixedRoutes = routes.flatMap((route) => {
    const operationId = unprefixedOperations[route.path];
    return operationId === undefined ? [] : [{ ...route, path: route.path.slice('/v1'.length), operationId }];
  });
  return [...routes, ...unprefixedRoutes];
}

export function v1Plane(resident: Resident, store: ModelStore, hostedTools?: HostedTools): Plane {
  return {
    name: 'v1',
    summary: "OpenAI's wire: completions and embeddings.",
    isPublicWire: true,
    prefixes: ['/v1', '/chat/completions', '/responses'],
    envelope: (error) => ({ error: errorObject(error) }),
    errorSchema: openaiError,
    absentRoutes: [
      {
        method: 'POST',
        path: '/v1/responses/compact',
        reason: 'this host does not shorten conversations; send a shorter one to POST /v1/responses',
      },
      {
        method: 'POST',
        path: '/v1/responses/input_tokens',
        reason:
          'use POST /v1/messages/count_tokens to count the tokens of a conversation, or the usage of an answer',
      },
    ],
    routes: withUnprefixed([
      ...modelRoutes(resident, store),
      chatRoute(resident),
      completionsRoute(resident),
      ...responsesRoutes(resident, hostedTools),
      embeddingsRoute(resident),
    ]),
  };
}
