import { join } from 'node:path';
import { systemClock } from '../agent/clock.ts';
import { AgentHost } from '../agent/open.ts';
import { countWork } from '../agent/sessions/observed.ts';
import { Builtins } from '../agent/workflows/builtins.ts';
import type { Secrets } from '../config/secrets.ts';
import type { Settings } from '../config/toml.ts';
import { heldLab } from '../planes/agent/held-lab.ts';
import { HostPlanners } from '../planes/agent/planners.ts';
import { health, telemetry } from '../planes/host/facts.ts';
import type { HostAgentFacts } from '../planes/host/routes.ts';
import type { Resident } from '../planes/resident.ts';
import type { Served } from '../planes/served.ts';
import type { SigningKey } from '../signing/ed25519.ts';
import type { Store } from '../store/index.ts';
import type { Watch } from '../watch/index.ts';
import type { Credentials } from './credentials.ts';
import type { DataDir } from './data-dir.ts';

export interface AgentSetting {
  readonly settings: Settings;
  readonly secrets: Secrets;
  readonly credentials: Credentials;
  /** Signs work receipts. */
  readonly key: SigningKey;
  readonly dataDir: DataDir;
  readonly store: Store;
  readonly watch: Watch;
  readonly packageRoot: string;
  readonly version: string;
  readonly resident: Resident;
  readonly served: Served;
  readonly reach: Pick<HostAgentFacts['reach'], 'bind' | 'controlPort'>;
  readonly onFault: (where: string, error: unknown) => void;
  readonly say: (message: string) => void;
}

export interface OpenAgent {
  readonly host: AgentHost;
  readonly facts: HostAgentFacts;
}

/** Opens the agent plane over the database. */
export async function openAgent(setting: AgentSetting): Promise<OpenAgent> {
  const { settings, secrets, credentials, key, dataDir, store, watch, resident, served, onFault, say } =
    setting;
  const planners = new HostPlanners({
    resident,
    gateway: secrets.gateway,
  });
  const sources = { served, resident, countWork: await countWork(store) };
  const cancelledState = settings.no_cancelled_state !== true;
  const enabled = new Set(settings.enable_workflow ?? []);
  const host = await AgentHost.open({
    store,
    key,
    planners,
    watch,
    onFault,
    onNotice: say,
    clock: systemClock,
    version: setting.version,
    lab: () => heldLab(resident),
    observe: {
      telemetry: () => telemetry(sources),
      health: () => Promise.resolve(health(resident)),
    },
    served: () => ({
      completions_served: served.completions,
      model: resident.engine?.model.id ?? '',
    }),
    mcp: secrets.mcp,
    builtins: await Builtins.open(join(setting.packageRoot, 'workflows')),
    forbidden: [dataDir.path],
    operatorHash: credentials.operatorHash,
    isEnabled: (name) => settings.enable_all_workflows === true || enabled.has(name),
    cancelledState,
    external: { heartbeatSecs: settings.heartbeat_secs ?? 15, most: settings.external_sessions ?? 64 },
  });
  const facts: HostAgentFacts = {
    store,
    planners,
    toolbox: host.toolbox,
    receiptKey: key,
    cancelledState,
    countWork: sources.countWork,
    reach: { ...setting.reach, operatorCredential: credentials.operatorHash !== undefined },
  };
  return { host, facts };
}
