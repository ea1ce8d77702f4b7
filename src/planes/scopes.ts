import type { PeerScope } from '../agent/shapes/peer-scope.ts';
import type { Route } from '../http/route.ts';

/**
 * What a peer's token must have for a route: one of these scopes; `none`, any token; `all`, a token that was minted without
 * a scope, which may do everything that a peer may.
 */
export type Needed = readonly PeerScope[] | 'none' | 'all';

/** By the route's method, unless its `operationId` is among `routes`. What is absent is `all`. */
interface PlaneScopes {
  readonly reads?: Needed;
  readonly writes?: Needed;
  readonly routes?: Readonly<Record<string, Needed>>;
}

const models = ['read', 'infer'] as const;
const looks = ['read', 'agent', 'approve'] as const;

/** By the plane's name. Whatever is not here is closed to every token with a scope. */
const planes: Readonly<Record<string, PlaneScopes>> = {
  health: { reads: 'none' },
  docs: { reads: 'none' },
  host: { reads: ['read'], routes: { getHostHealth: 'none' } },
  control: { routes: { getMetrics: ['read'] } },
  v1: { reads: models, writes: ['infer'] },
  messages: { reads: models, writes: ['infer'] },
  'llama-cpp': {
    reads: models,
    writes: ['infer'],
    routes: { llamaCppHealth: 'none', llamaCppSetProps: 'all' },
  },
  ollama: {
    reads: models,
    routes: {
      ollamaShow: models,
      ollamaChat: ['infer'],
      ollamaGenerate: ['infer'],
      ollamaEmbed: ['infer'],
      ollamaEmbeddings: ['infer'],
    },
  },
  lab: { reads: ['read'] },
  agent: {
    reads: looks,
    writes: ['agent'],
    routes: {
      approvePendingChange: ['approve'],
      discardPendingChange: ['approve'],
      lintWorkflow: looks,
      // Definitions say what agents may do without asking anybody: whoever writes them approves it.
      createAgent: ['approve'],
      putAgent: ['approve'],
      deleteAgent: ['approve'],
      createWorkflow: ['approve'],
      putWorkflow: ['approve'],
      deleteWorkflow: ['approve'],
      forkWorkflow: ['approve'],
    },
  },
  // Queries are POSTs and change nothing. What a peer may read of transcripts its grants say.
  observe: { reads: ['read'], writes: ['read'] },
  // A write token and its grant are what ingest asks for.
  recorder: {
    reads: ['read'],
    routes: { ingestEvents: 'none', listGrants: 'all', reviewRecorder: 'all' },
  },
};

/** Scope that all requests under `/gateway` need, besides a key of the gateway. */
export const gatewayScopes: Needed = ['infer'];

export function neededScopes(plane: string, { method, operationId }: Route): Needed {
  const { reads = 'all', writes = 'all', routes = {} } = planes[plane] ?? {};
  return routes[operationId] ?? (method === 'GET' || method === 'HEAD' ? reads : writes);
}
