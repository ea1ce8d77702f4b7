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
import { rerankPaths, rerankRoutes } from './rerank.ts';
import { responsesSocket } from './response-socket.ts';
import { responsesRoutes } from './responses.ts';
import type { BackgroundResponses } from './stored/background.ts';
import type { ResponseStore } from './stored/response-store.ts';

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

/** What only some hosts have. */
export interface V1Options {
  /** Absent where the host runs no agents. */
  readonly hostedTools?: HostedTools | undefined;
  /** Absent where the host stores no responses. */
  readonly responses?: ResponseStore | undefined;
  readonly background?: BackgroundResponses | undefined;
}

export function v1Plane(
  resident: Resident,
  store: ModelStore,
  { hostedTools, responses, background }: V1Options = {},
): Plane {
  const responsesOptions = { resident, hostedTools, responses };
  return {
    name: 'v1',
    summary: "OpenAI's wire: completions and embeddings; and rerank.",
    isPublicWire: true,
    prefixes: [
      '/v1',
      '/chat/completions',
      '/responses',
      ...rerankPaths.filter((path) => !path.startsWith('/v1')),
    ],
    sockets: [responsesSocket(responsesOptions)],
    envelope: (error) => ({ error: errorObject(error) }),
    errorSchema: openaiError,
    routes: withUnprefixed([
      ...modelRoutes(resident, store),
      chatRoute(resident),
      completionsRoute(resident),
      ...responsesRoutes(responsesOptions, background),
      embeddingsRoute(resident),
      ...rerankRoutes(resident),
    ]),
  };
}
