import type { ChatModels } from '../../agent/chat-model.ts';
import type { Toolbox } from '../../agent/services.ts';
import type { WorkCounts } from '../../agent/sessions/served-sessions.ts';
import { rawPublicKey, type SigningKey } from '../../signing/ed25519.ts';
import type { Engine } from '../../engine/index.ts';
import type { Store } from '../../store/index.ts';
import { withHttpErrors } from '../agent/plane.ts';
import { hostError } from '../error-schema.ts';
import type { BrowserSessions } from '../../http/browser-sessions.ts';
import { hostEnvelope } from '../../http/error.ts';
import { sessionRoutes } from '../../http/session-routes.ts';
import { changesRoute, type ChangesOptions } from './changes.ts';
import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import type { ServedCounters } from '../served-counters.ts';
import { type HostHealth, hostHealth, hostTelemetry, type SubstrateInfo, substrateInfo } from './schema.ts';
import { type HostReachability, servedRoutes } from './served-routes.ts';
import { readHealth, readTelemetry } from './facts.ts';
import { hostModelsRoute } from './models.ts';

const contractVersion = '1.4.0';

export interface HostPlaneOptions {
  readonly resident: Resident;
  readonly served: ServedCounters;
  readonly version: string;
  readonly endpointId: string;
  readonly capabilities: readonly string[];
  /** What changes on the host. Absent: there is no stream of changes. */
  readonly changes?: Pick<ChangesOptions, 'bus' | 'draining'> | undefined;
  /** Sessions of browsers. Absent: browsers cannot sign in. */
  readonly sessions?: BrowserSessions | undefined;
  /** The stored models, and the memory for models in bytes, where it is known. Absent: they are not listed. */
  readonly models?: { readonly store: ModelStore; readonly memoryBytes: () => number | undefined };
  /** Port of the gateway's operator listener on loopback; undefined: it has none. */
  readonly gatewayAdminPort?: () => number | undefined;
  /** Undefined on a host without the agent plane. */
  readonly agent?: HostAgentData | undefined;
}

/** Data of the agent plane for the host's routes. */
export interface HostAgentData {
  readonly store: Store;
  readonly toolbox: Pick<Toolbox, 'enforcementTier'>;
  readonly planners: Pick<ChatModels, 'disclosure'>;
  readonly receiptKey: Pick<SigningKey, 'keyId' | 'publicKey'>;
  /** Counts of agent work since startup. */
  readonly countWork: () => Promise<WorkCounts>;
  readonly reachability: HostReachability;
  /** False: cancelled runs are shown as failed. */
  readonly cancelledState: boolean;
}

const replacedKernels = ({ replacedKernels: replaced = [] }: Pick<Engine, 'replacedKernels'>) =>
  replaced.length === 0
    ? {}
    : { replaced_kernels: replaced.map(({ kernel, reason }) => ({ kernel, reason })) };

const describeIdentity = (engine: Engine): NonNullable<SubstrateInfo['model']> => ({
  id: engine.model.id,
  architecture: engine.model.architecture,
  parameters: engine.model.parameters,
  quantization: engine.model.quantization,
  context_length: engine.model.contextLength,
  memory_bytes: engine.stats().memoryBytes,
  digest: engine.model.digest,
});

const noPlannerDisclosure = {
  kind: 'none',
  model: null,
  disclosure: 'No planner: the resident model answers requests directly.',
};

export function createHostPlane(options: HostPlaneOptions): Plane {
  const { resident, served, version, endpointId, capabilities, agent, models, sessions, changes } = options;
  const { gatewayAdminPort } = options;
  const getInfo = defineRoute({
    method: 'GET',
    path: '/host/v1/info',
    operationId: 'getHostInfo',
    summary: 'Get the identity card of the host',
    responses: { 200: { description: 'The card.', content: { 'application/json': substrateInfo } } },
    handle() {
      const { engine, embeddingModel } = resident;
      const adminPort = gatewayAdminPort?.();
      const info: SubstrateInfo = {
        protocol_version: contractVersion,
        contract_version: contractVersion,
        host_version: version,
        endpoint_id: endpointId,
        capabilities: [...capabilities],
        enforcement_tier: agent?.toolbox.enforcementTier ?? 'none',
        model: engine ? describeIdentity(engine) : null,
        ...(embeddingModel ? { embedding_model: describeIdentity(embeddingModel.engine) } : {}),
        ...(resident.keepsSeveral
          ? { models: resident.models.map((loaded) => describeIdentity(loaded.engine)) }
          : {}),
        planner: agent?.planners.disclosure ?? noPlannerDisclosure,
        ...(agent ? { receipt_key: receiptKey(agent.receiptKey) } : {}),
        adapter: engine
          ? {
              backend: engine.adapter.backend,
              vendor: engine.adapter.vendor,
              description: engine.adapter.description,
              features: [...engine.adapter.features],
              ...replacedKernels(engine),
            }
          : null,
        ...(adminPort === undefined ? {} : { gateway_admin_port: adminPort }),
        completions_served: served.completions,
      };
      return Response.json(info);
    },
  });

  const getHealth = defineRoute({
    method: 'GET',
    path: '/host/v1/health',
    operationId: 'getHostHealth',
    summary: 'Get the health of the host',
    responses: {
      200: { description: 'The id of the served model.', content: { 'application/json': hostHealth } },
      503: { description: 'The model is loading.', content: { 'application/json': hostError } },
    },
    handle() {
      const body: HostHealth = readHealth(resident);
      return Response.json(body);
    },
  });

  const getTelemetry = defineRoute({
    method: 'GET',
    path: '/host/v1/telemetry',
    operationId: 'getHostTelemetry',
    summary: 'Get the totals since startup',
    responses: { 200: { description: 'The totals.', content: { 'application/json': hostTelemetry } } },
    async handle() {
      const body = await readTelemetry({ served, resident, countWork: agent?.countWork });
      return Response.json(body);
    },
  });

  return {
    name: 'host',
    summary: 'Identity, health and telemetry of the host.',
    prefixes: ['/host'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: withHttpErrors([
      getInfo,
      getHealth,
      getTelemetry,
      ...(changes ? [changesRoute({ ...changes, endpointId })] : []),
      ...(sessions ? sessionRoutes('/host/v1/session', sessions) : []),
      ...(models ? [hostModelsRoute(resident, models)] : []),
      ...(agent ? servedRoutes({ ...agent, resident }) : []),
    ]),
  };
}

const receiptKey = ({ keyId, publicKey }: HostAgentData['receiptKey']) => ({
  alg: 'ed25519' as const,
  key_id: keyId,
  public_key: rawPublicKey(publicKey).toString('base64'),
});
