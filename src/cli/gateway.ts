import { freeRateCard } from '../gateway/catalog/rate-card.ts';
import type { Model, Provider } from '../gateway/catalog/types.ts';
import type { Cap } from '../wires/core/types.ts';
import { GatewayFile } from '../gateway/config/gateway-file.ts';
import type { GatewayConfig } from '../gateway/config/types.ts';
import { redactDatabaseUrl } from '../gateway/config/redact-database-url.ts';
import { type Gateway, openGateway } from '../gateway/open.ts';
import type { ModelInfo } from '../engine/index.ts';
import type { Access } from '../planes/access.ts';
import { type BackendOptions, residentBackend } from '../planes/backend.ts';
import type { App } from '../http/listen.ts';
import { hostEnvelope, HttpError, errorResponse } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import { gatewayScopes } from '../planes/scopes.ts';
import type { GatewayObserver } from '../tracing/index.ts';

/** Path prefix of the gateway within a host. */
const basePath = '/gateway';

/** Provider of the resident model, which runs in this process. */
const localProvider: Provider = {
  id: 'local',
  wire: 'lathe',
  baseUrls: [],
  apiKey: undefined,
  access: 'house',
};

/** Reads the gateway's file. Without one the gateway offers the resident model only. Rejects with `UsageError`. */
export async function readHostGateway({
  path,
  database,
  env,
  onNotice,
}: {
  readonly path: string | undefined;
  readonly database: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onNotice: (message: string) => void;
}): Promise<GatewayConfig> {
  const file =
    path === undefined
      ? new GatewayFile('', { name: '', folder: '', env })
      : await GatewayFile.read(path, { env, flagName: '--gateway-config' });
  const configuredDatabase = await file.database();
  if (configuredDatabase !== undefined && configuredDatabase !== database)
    onNotice(
      `${path} names a database, but within a host the gateway uses the host's database: create its keys with --database ${redactDatabaseUrl(database)}`,
    );
  return await file.config();
}

export interface HostGatewayOptions extends BackendOptions {
  readonly config: GatewayConfig;
  /** Reads its file again; undefined where there is none. Rejects with `UsageError`. */
  readonly readConfig?: (() => Promise<GatewayConfig>) | undefined;
  readonly database: string;
  readonly onSecret: (secret: string) => void;
  readonly observer: GatewayObserver;
  readonly onNotice: (message: string) => void;
}

/** Opens the gateway of a host, with the resident model in its catalog. Rejects with `StoreError`. */
export async function openHostGateway(options: HostGatewayOptions): Promise<Gateway> {
  const {
    config,
    readConfig,
    database,
    resident,
    stopSignal: stopping,
    onFault,
    onNotice,
    onSecret,
    watch,
    observer,
  } = options;
  const local = {
    backend: residentBackend({ resident, stopSignal: stopping, onFault, watch }),
    models: () => resident.models.map(({ engine }) => localModel(engine.model)),
  };
  return await openGateway(
    {
      config,
      ...(readConfig ? { readConfig } : {}),
      database,
      local,
      tracer: watch,
      observer,
      onFault,
      onNotice,
      onSecret,
    },
    basePath,
  );
}

/** Catalog entry of a model of the host, which is free of charge. */
function localModel({ id, kind, contextLength, embeddingDimensions }: ModelInfo): Model {
  const generating: Cap[] = ['chat', 'tools', 'structured_output', 'completions', 'caching'];
  // The gateway has no route for rankings.
  const capsByKind: Readonly<Record<ModelInfo['kind'], readonly Cap[]>> = {
    generate: [...generating, 'embeddings'],
    embed: ['embeddings'],
    rerank: [],
  };
  const caps = capsByKind[kind];
  return {
    id,
    provider: localProvider,
    upstream: id,
    family: 'lathe',
    caps: new Set(caps),
    contextWindow: contextLength,
    maxOutputTokens: contextLength,
    ...freeRateCard,
    displayName: id,
    embeddingDimensions,
    efforts: undefined,
  };
}

/**
 * Serves the gateway next to the planes. On a listener that requires a bearer token, send the gateway's API key in
 * `x-api-key`.
 */
export function withGateway(planes: App, gateway: Gateway | undefined, access: Access): App {
  if (!gateway) return planes;
  const isGatewayPath = (path: string) => path === basePath || path.startsWith(`${basePath}/`);
  return {
    async fetch(request, env) {
      const { pathname: path } = new URL(request.url);
      if (!isGatewayPath(path)) return await planes.fetch(request, env);
      try {
        const { incoming } = env as { incoming?: { socket?: { remoteAddress?: string } } };
        const remoteAddress = incoming?.socket?.remoteAddress;
        const { method, headers } = request;
        access.requireScope(
          await access.authenticate({ method, path, headers, remoteAddress }),
          gatewayScopes,
        );
      } catch (error) {
        if (error instanceof HttpError) return errorResponse(error, hostEnvelope, newHostRequestId());
        throw error;
      }
      return await gateway.app.fetch(request, env);
    },
  };
}
