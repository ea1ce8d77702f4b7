import type { PeerScope } from '../agent/shapes/peer-scope.ts';
import type { Route } from '../http/route.ts';

/**
 * Scopes that a route requires from a peer's token: any one of the listed scopes; `none`: any token; `all`: a token
 * without a scope, which is unrestricted.
 */
export type RequiredScopes = readonly PeerScope[] | 'none' | 'all';

/** Scopes by the route's method, unless `routes` has its `operationId`. An absent member means `all`. */
interface PlaneScopes {
  readonly reads?: RequiredScopes;
  readonly writes?: RequiredScopes;
  readonly routes?: Readonly<Record<string, RequiredScopes>>;
}

const modelReadScopes = ['read', 'infer'] as const;
const agentReadScopes = ['read', 'agent', 'approve'] as const;

/** Scopes by plane name. Planes and routes that are absent refuse every token with a scope. */
const scopesByPlane: Readonly<Record<string, PlaneScopes>> = {
  health: { reads: 'none' },
  ready: { reads: 'none' },
  metrics: { reads: ['read'] },
  docs: { reads: 'none' },
  host: {
    reads: ['read'],
    routes: {
      getHostHealth: 'none',
      createSession: 'none',
      getSession: 'none',
      deleteSession: 'none',
      // Each topic needs the scope of its plane.
      followChanges: 'none',
    },
  },
  control: { routes: { getMetrics: ['read'] } },
  v1: { reads: modelReadScopes, writes: ['infer'] },
  messages: { reads: modelReadScopes, writes: ['infer'] },
  'llama-cpp': {
    reads: modelReadScopes,
    writes: ['infer'],
    routes: { llamaCppHealth: 'none', llamaCppSetProps: 'all' },
  },
  ollama: {
    reads: modelReadScopes,
    routes: {
      ollamaShow: modelReadScopes,
      ollamaChat: ['infer'],
      ollamaGenerate: ['infer'],
      ollamaEmbed: ['infer'],
      ollamaEmbeddings: ['infer'],
    },
  },
  lab: { reads: ['read'] },
  agent: {
    reads: agentReadScopes,
    writes: ['agent'],
    routes: {
      approvePendingChange: ['approve'],
      approvePendingChanges: ['approve'],
      discardPendingChange: ['approve'],
      editPendingChange: ['approve'],
      lintWorkflow: agentReadScopes,
      // Definitions determine what agents may do without approval, so writing them requires the approve scope.
      createAgent: ['approve'],
      putAgent: ['approve'],
      deleteAgent: ['approve'],
      createWorkflow: ['approve'],
      putWorkflow: ['approve'],
      deleteWorkflow: ['approve'],
      forkWorkflow: ['approve'],
    },
  },
  // Queries are POST requests but change nothing. Grants limit which transcripts a peer may read.
  observe: { reads: ['read'], writes: ['read'] },
  // Ingest is authorized by a write token and its grant.
  recorder: {
    reads: ['read'],
    routes: { ingestEvents: 'none', listGrants: 'all', reviewRecorder: 'all' },
  },
};

/** Scope that all requests under `/gateway` require, in addition to a gateway key. */
export const gatewayScopes: RequiredScopes = ['infer'];

/** Scopes of which a token needs one to read a plane. */
export const readScopes = (plane: string): RequiredScopes => scopesByPlane[plane]?.reads ?? 'all';

export function requiredScopes(plane: string, { method, operationId }: Route): RequiredScopes {
  const { reads = 'all', writes = 'all', routes = {} } = scopesByPlane[plane] ?? {};
  return routes[operationId] ?? (method === 'GET' || method === 'HEAD' ? reads : writes);
}
