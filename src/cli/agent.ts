import { join } from 'node:path';
import { systemClock } from '../agent/clock.ts';
import { AgentHost } from '../agent/agent-host.ts';
import { createWorkCounter } from '../agent/sessions/served-sessions.ts';
import { BuiltinWorkflows } from '../agent/workflows/builtin-workflows.ts';
import type { Secrets } from '../config/secrets.ts';
import type { Settings } from '../config/toml.ts';
import { createPinnedLab } from '../planes/agent/pinned-lab.ts';
import { HostChatModels } from '../planes/agent/chat-models.ts';
import { readHealth, readTelemetry } from '../planes/host/facts.ts';
import type { HostAgentData } from '../planes/host/routes.ts';
import type { Resident } from '../planes/resident.ts';
import type { ServedCounters } from '../planes/served-counters.ts';
import type { SigningKey } from '../signing/ed25519.ts';
import type { Store } from '../store/index.ts';
import type { Tracer } from '../tracing/index.ts';
import type { Credentials } from './credentials.ts';
import type { DataDir } from './data-dir.ts';

export interface OpenAgentOptions {
  readonly settings: Settings;
  readonly secrets: Secrets;
  readonly credentials: Credentials;
  /** Signs work receipts. */
  readonly key: SigningKey;
  readonly dataDir: DataDir;
  readonly store: Store;
  readonly watch: Tracer;
  readonly packageRoot: string;
  readonly version: string;
  readonly resident: Resident;
  readonly served: ServedCounters;
  readonly reach: Pick<HostAgentData['reachability'], 'bind' | 'controlPort'>;
  readonly onFault: (where: string, error: unknown) => void;
  readonly onNotice: (message: string) => void;
}

export interface OpenAgent {
  readonly host: AgentHost;
  readonly facts: HostAgentData;
}

/** Opens the agent plane over the database. */
export async function openAgent(options: OpenAgentOptions): Promise<OpenAgent> {
  const { settings, secrets, credentials, key, dataDir, store, watch, resident, served, onFault, onNotice } =
    options;
  const planners = new HostChatModels({
    resident,
    gateway: secrets.gateway,
  });
  const sources = { served, resident, countWork: await createWorkCounter(store) };
  const cancelledState = settings.no_cancelled_state !== true;
  const enabled = new Set(settings.enable_workflow ?? []);
  const host = await AgentHost.open({
    store,
    key,
    chatModels: planners,
    tracer: watch,
    onFault,
    onNotice: onNotice,
    clock: systemClock,
    version: options.version,
    lab: () => createPinnedLab(resident),
    observe: {
      telemetry: () => readTelemetry(sources),
      health: () => Promise.resolve(readHealth(resident)),
    },
    served: () => ({
      completions_served: served.completions,
      model: resident.engine?.model.id ?? '',
    }),
    mcp: secrets.mcp,
    webhooks: secrets.webhooks,
    builtins: await BuiltinWorkflows.open(join(options.packageRoot, 'workflows')),
    forbidden: [dataDir.path],
    outputsFolder: join(dataDir.path, 'outputs'),
    processesFolder: join(dataDir.path, 'processes'),
    operatorHash: credentials.operatorHash,
    isEnabled: (name) => settings.enable_all_workflows === true || enabled.has(name),
    cancelledState,
    external: { heartbeatSecs: settings.heartbeat_secs ?? 15, maxSessions: settings.external_sessions ?? 64 },
  });
  const facts: HostAgentData = {
    store,
    planners,
    toolbox: host.toolbox,
    receiptKey: key,
    cancelledState,
    countWork: sources.countWork,
    reachability: { ...options.reach, operatorCredential: credentials.operatorHash !== undefined },
  };
  return { host, facts };
}
