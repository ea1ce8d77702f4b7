import { hostError } from '../error-schema.ts';
import { hostEnvelope } from '../problem.ts';
import { loading, type Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../route.ts';
import type { Served } from '../served.ts';
import {
  type HostHealth,
  type HostTelemetry,
  hostHealth,
  hostTelemetry,
  type SubstrateInfo,
  substrateInfo,
} from './schema.ts';

const contractVersion = '1.4.0';

export interface HostPlaneOptions {
  readonly resident: Resident;
  readonly served: Served;
  readonly version: string;
  readonly endpointId: string;
  readonly capabilities: readonly string[];
}

export function hostPlane({ resident, served, version, endpointId, capabilities }: HostPlaneOptions): Plane {
  const getInfo = defineRoute({
    method: 'GET',
    path: '/host/v1/info',
    operationId: 'getHostInfo',
    summary: 'The identity card of the host',
    answers: { 200: { description: 'The card.', content: { 'application/json': substrateInfo } } },
    handle() {
      const { engine } = resident;
      const info: SubstrateInfo = {
        protocol_version: contractVersion,
        contract_version: contractVersion,
        host_version: version,
        endpoint_id: endpointId,
        capabilities: [...capabilities],
        enforcement_tier: 'none',
        model: engine
          ? {
              id: engine.model.id,
              architecture: engine.model.architecture,
              parameters: engine.model.parameters,
              quantization: engine.model.quantization,
              context_length: engine.model.contextLength,
              digest: engine.model.digest,
            }
          : null,
        planner: {
          kind: 'none',
          model: null,
          disclosure: 'No planner: a request is answered by the resident model as it stands.',
        },
        adapter: engine
          ? {
              backend: engine.adapter.backend,
              vendor: engine.adapter.vendor,
              description: engine.adapter.description,
              features: [...engine.adapter.features],
            }
          : null,
        completions_served: served.completions,
      };
      return Response.json(info);
    },
  });

  const getHealth = defineRoute({
    method: 'GET',
    path: '/host/v1/health',
    operationId: 'getHostHealth',
    summary: 'The served model',
    answers: {
      200: { description: 'The id of the served model.', content: { 'application/json': hostHealth } },
      503: { description: 'The model is loading.', content: { 'application/json': hostError } },
    },
    handle() {
      if (resident.state.kind === 'loading') throw loading();
      const id = resident.engine?.model.id;
      const body: HostHealth =
        id === undefined ? { model: '', status: 'no_model' } : { model: id, status: 'ok' };
      return Response.json(body);
    },
  });

  const getTelemetry = defineRoute({
    method: 'GET',
    path: '/host/v1/telemetry',
    operationId: 'getHostTelemetry',
    summary: 'Totals since start-up',
    answers: { 200: { description: 'The totals.', content: { 'application/json': hostTelemetry } } },
    handle() {
      const body: HostTelemetry = {
        since: served.since.toISOString(),
        served: { completions: served.completions, tasks: 0, workflow_runs: 0 },
        tokens: { prompt: served.promptTokens, completion: served.completionTokens },
        measured_completions: served.measuredCompletions,
        coverage:
          'Tokens of buffered completions on /v1; streamed completions count as served and contribute no tokens.',
        device_losses: resident.engine?.stats().deviceLosses ?? 0,
      };
      return Response.json(body);
    },
  });

  return {
    name: 'host',
    summary: 'Identity, health and telemetry of the host.',
    prefixes: ['/host'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: [getInfo, getHealth, getTelemetry],
  };
}
