import type { AgentHost } from '../agent/agent-host.ts';
import type { ChangeBus } from '../changes/change-bus.ts';
import { createAgentPlaneOf } from './agent/routes.ts';
import { createDocsPlane } from './docs/routes.ts';
import { createReadyPlane } from './health/ready.ts';
import { createHealthPlane } from './health/routes.ts';
import { createControlPlane } from './host/control.ts';
import { type HostAgentData, createHostPlane } from './host/routes.ts';
import { llamaCppPlane } from './llama-cpp/routes.ts';
import type { ModelStore } from './model-store.ts';
import { ollamaPlane } from './ollama/routes.ts';
import type { Resident } from './resident.ts';
import type { BrowserSessions } from '../http/browser-sessions.ts';
import type { Plane } from '../http/route.ts';
import { createMetricsPlane, type MetricsOptions } from './host/metrics.ts';
import type { ServedCounters } from './served-counters.ts';
import { createLabPlane } from './lab/routes.ts';
import { messagesPlane } from './messages/routes.ts';
import { createObservePlane } from './observe/routes.ts';
import { createRecorderPlane } from './recorder/routes.ts';
import { v1Plane } from './v1/routes.ts';
import type { BackgroundResponses } from './v1/stored/background.ts';
import type { ResponseStore } from './v1/stored/response-store.ts';
import type { Observe } from '../observe/observe.ts';
import type { RecorderService } from '../recorder/services.ts';

export interface HostFacts {
  readonly resident: Resident;
  readonly store: ModelStore;
  /** Counters of served completions; one of the trace sinks. */
  /** Memory in bytes for all models; undefined where it is not known, as on most GPUs. */
  readonly modelMemoryBytes?: () => number | undefined;
  readonly served: ServedCounters;
  readonly version: string;
  /** Further metrics of `/metrics`. */
  readonly metrics?: MetricsOptions['tracedMetrics'];
  readonly requests?: MetricsOptions['requests'];
  /** Aborted when the host stops and finishes the requests that run. */
  readonly draining?: AbortSignal;
  readonly recorder?: RecorderService;
  readonly observe?: Observe;
  readonly endpointId: string;
  /** What changes on the host. */
  readonly changes?: ChangeBus | undefined;
  /** Sessions of browsers at the main listener. */
  readonly sessions?: BrowserSessions | undefined;
  /** Whether the host serves the gateway too. */
  readonly gateway?: boolean;
  /** Port of the gateway's operator listener on loopback; undefined: it has none. */
  readonly gatewayAdminPort?: () => number | undefined;
  /** Undefined where the host stores no responses. */
  readonly responses?: ResponseStore | undefined;
  readonly background?: BackgroundResponses | undefined;
  /** Whether `/api/chat` drops the oldest messages of a conversation that exceeds the context. Default: true. */
  readonly truncatesChats?: boolean;
  /** Undefined where the host runs no agents. */
  readonly agent?: { readonly host: AgentHost; readonly facts: HostAgentData };
}

/** Capabilities that the host reports. */
const capabilityNames = ({ agent, gateway, observe, recorder }: HostFacts): string[] => [
  'host',
  'v1',
  'messages',
  'ollama',
  'llama-cpp',
  'lab',
  ...(agent ? ['agent'] : []),
  ...(gateway ? ['gateway'] : []),
  ...(observe ? ['observe'] : []),
  ...(recorder ? ['recorder'] : []),
];

const metricsOptions = ({
  served,
  resident,
  version,
  agent,
  metrics,
  requests,
}: HostFacts): MetricsOptions => ({
  served,
  resident,
  version,
  external: agent?.host.external,
  countWork: agent?.facts.countWork,
  tracedMetrics: metrics,
  requests,
});

/** Every plane of the main listener. A new plane is one line here. */
export function createHostPlanes(facts: HostFacts): Plane[] {
  const { resident, store, served, version, endpointId, agent, observe, recorder, responses, background } =
    facts;
  const names = capabilityNames(facts);
  const planes = [
    createHealthPlane(resident, names),
    createReadyPlane(resident, facts.draining),
    createMetricsPlane(metricsOptions(facts)),
    createHostPlane({
      resident,
      served,
      version,
      endpointId,
      capabilities: names,
      sessions: facts.sessions,
      ...(facts.gatewayAdminPort ? { gatewayAdminPort: facts.gatewayAdminPort } : {}),
      changes: facts.changes && { bus: facts.changes, draining: facts.draining },
      agent: agent?.facts,
      models: { store, memoryBytes: facts.modelMemoryBytes ?? (() => undefined) },
    }),
    // Must precede the `/v1` plane, because the first matching prefix determines the error envelope.
    messagesPlane(resident),
    llamaCppPlane({ resident, store, version, planes: names }),
    v1Plane(resident, store, { hostedTools: agent?.host.hostedTools, responses, background }),
    ollamaPlane({ resident, store, version, truncatesChats: facts.truncatesChats }),
    createLabPlane(resident),
    ...(agent ? [createAgentPlaneOf(agent.host)] : []),
    ...(observe ? [createObservePlane(observe)] : []),
    ...(recorder ? [createRecorderPlane(recorder)] : []),
  ];
  return [...planes, createDocsPlane(planes, version)];
}

/** Planes of the control socket: the operator's view, without completions. */
export function createControlPlanes(facts: HostFacts): Plane[] {
  const { resident, served, version, endpointId, agent, recorder } = facts;
  const capabilities = capabilityNames(facts);
  const planes = [
    createHealthPlane(resident, ['host']),
    createReadyPlane(resident, facts.draining),
    createHostPlane({ resident, served, version, endpointId, capabilities, agent: agent?.facts }),
    ...(agent ? [createControlPlane({ peers: agent.host.peers, recorder }, metricsOptions(facts))] : []),
  ];
  return [...planes, createDocsPlane(planes, version)];
}
