import type { AgentHost } from '../agent/open.ts';
import { agentPlaneOf } from './agent/routes.ts';
import { docsPlane } from './docs/routes.ts';
import { healthPlane } from './health/routes.ts';
import { controlPlane } from './host/control.ts';
import { type HostAgentFacts, hostPlane } from './host/routes.ts';
import { llamaCppPlane } from './llama-cpp/routes.ts';
import type { ModelStore } from './model-store.ts';
import { ollamaPlane } from './ollama/routes.ts';
import type { Resident } from './resident.ts';
import type { Plane } from '../http/route.ts';
import type { MetricsOptions } from './host/metrics.ts';
import type { Served } from './served.ts';
import { labPlane } from './lab/routes.ts';
import { messagesPlane } from './messages/routes.ts';
import { observePlane } from './observe/routes.ts';
import { recorderPlane } from './recorder/routes.ts';
import { v1Plane } from './v1/routes.ts';
import type { Observe } from '../observe/open.ts';
import type { RecorderService } from '../recorder/services.ts';

export interface HostFacts {
  readonly resident: Resident;
  readonly store: ModelStore;
  /** Counters of served completions; one of the trace sinks. */
  readonly served: Served;
  readonly version: string;
  /** Further metrics of `/metrics`. */
  readonly metrics?: MetricsOptions['watched'];
  readonly recorder?: RecorderService;
  readonly observe?: Observe;
  readonly endpointId: string;
  /** Whether the host serves the gateway too. */
  readonly gateway?: boolean;
  /** Undefined where the host runs no agents. */
  readonly agent?: { readonly host: AgentHost; readonly facts: HostAgentFacts };
}

/** Capabilities that the host reports. */
const namesOf = ({ agent, gateway, observe, recorder }: HostFacts): string[] => [
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

/** Every plane of the main listener. A new plane is one line here. */
export function hostPlanes(facts: HostFacts): Plane[] {
  const { resident, store, served, version, endpointId, agent, observe, recorder } = facts;
  const names = namesOf(facts);
  const planes = [
    healthPlane(resident, names),
    hostPlane({ resident, served, version, endpointId, capabilities: names, agent: agent?.facts }),
    // Must precede the `/v1` plane, because the first matching prefix determines the error envelope.
    messagesPlane(resident),
    llamaCppPlane({ resident, store, version, planes: names }),
    v1Plane(resident, store),
    ollamaPlane({ resident, store, version }),
    labPlane(resident),
    ...(agent ? [agentPlaneOf(agent.host)] : []),
    ...(observe ? [observePlane(observe)] : []),
    ...(recorder ? [recorderPlane(recorder)] : []),
  ];
  return [...planes, docsPlane(planes, version)];
}

/** Planes of the control socket: the operator's view, without completions. */
export function controlPlanes(facts: HostFacts): Plane[] {
  const { resident, served, version, endpointId, agent, metrics, recorder } = facts;
  const capabilities = namesOf(facts);
  const planes = [
    healthPlane(resident, ['host']),
    hostPlane({ resident, served, version, endpointId, capabilities, agent: agent?.facts }),
    ...(agent
      ? [
          controlPlane(
            { peers: agent.host.peers, recorder },
            {
              served,
              resident,
              version,
              external: agent.host.external,
              countWork: agent.facts.countWork,
              watched: metrics,
            },
          ),
        ]
      : []),
  ];
  return [...planes, docsPlane(planes, version)];
}
