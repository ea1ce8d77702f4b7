import type { BuiltinWorkflows } from './workflows/builtin-workflows.ts';
import type { SigningKey } from '../signing/ed25519.ts';
import type { Store } from '../store/index.ts';
import { noopTracer, type Tracer } from '../tracing/index.ts';
import { StoredAgents } from './agents/stored-agents.ts';
import type { Clock } from './clock.ts';
import { AgentError } from './errors.ts';
import { EventFeed } from './event-feed.ts';
import { EventLog } from './event-log.ts';
import { HostedTools } from './hosted-tools.ts';
import { type McpServerConfig, McpServers } from './mcp/index.ts';
import { ActJournal } from './pending/act-journal.ts';
import { PendingChanges } from './pending/pending-changes.ts';
import type { ChatModels } from './chat-model.ts';
import { ReceiptChain } from './receipts/receipt-chain.ts';
import { ExternalSessions } from './sessions/external-sessions.ts';
import { SessionFeed } from './sessions/session-feed.ts';
import { Peers } from './sessions/peers.ts';
import { StoredSessions } from './sessions/store-sessions.ts';
import { StartedProcesses } from './started-processes.ts';
import { StoredSignals } from './signals.ts';
import { TaskService } from './tasks/task-service.ts';
import { builtinTools } from './tools/builtin/builtin-tools.ts';
import type { GetLab } from './tools/builtin/lab-reader.ts';
import type { ObserveReader } from './tools/builtin/observe.ts';
import { Bubblewrap } from './tools/sandbox/bubblewrap.ts';
import { SavedOutputs } from './tools/sandbox/saved-outputs.ts';
import { CombinedToolbox } from './tools/toolbox.ts';
import { TurnLoop } from './turns/turn-loop.ts';
import { Ensembles } from './workflows/ensembles.ts';
import type { HostState } from './workflows/definition/conditions.ts';
import { WorkflowRuns } from './workflows/running/runs.ts';
import type { WebhookConfig } from './webhooks/config.ts';
import { DeliveryStore } from './webhooks/delivery-store.ts';
import { Webhooks } from './webhooks/webhooks.ts';

/** How often overdue changes and orphaned tasks are looked for. */
const sweepIntervalMs = 60_000;

export interface AgentHostOptions {
  readonly store: Store;
  /** Signs receipts. */
  readonly key: SigningKey;
  readonly clock: Clock;
  readonly version: string;
  readonly chatModels: ChatModels;
  readonly lab: GetLab;
  /** Host data for the tools that observe the host. */
  readonly observe: Pick<ObserveReader, 'telemetry' | 'health'>;
  /** Host state that workflow conditions read and the agent plane does not know. */
  readonly served: () => Pick<HostState, 'completions_served' | 'model'>;
  readonly mcp: readonly McpServerConfig[];
  readonly webhooks: readonly WebhookConfig[];
  readonly builtins: BuiltinWorkflows;
  /** Absolute paths that no agent may access, whatever its grants. */
  readonly forbidden: readonly string[];
  /** Folder for long outputs of commands. */
  readonly outputsFolder: string;
  /** Folder for records of started programs. */
  readonly processesFolder: string;
  readonly operatorHash: string | undefined;
  /** Which workflows may be run by name. */
  readonly isEnabled: (name: string) => boolean;
  /** False: cancelled runs are shown as failed. */
  readonly cancelledState: boolean;
  readonly external: { readonly heartbeatSecs: number; readonly maxSessions: number };
  /** Receives spans of tasks, runs, turns and tool calls. */
  readonly tracer?: Tracer;
  /** Called with unexpected errors. */
  readonly onFault: (where: string, error: unknown) => void;
  readonly onNotice: (message: string) => void;
}

/** The agent plane of one host, with all of its services. */
export class AgentHost {
  readonly agents: StoredAgents;
  readonly toolbox: CombinedToolbox;
  readonly changes: PendingChanges;
  readonly acts: ActJournal;
  readonly tasks: TaskService;
  readonly ensembles: Ensembles;
  readonly runs: WorkflowRuns;
  readonly external: ExternalSessions;
  readonly sessions: StoredSessions;
  readonly receipts: ReceiptChain;
  readonly feed: SessionFeed;
  readonly events: EventFeed;
  readonly webhooks: Webhooks;
  readonly peers: Peers;
  readonly hostedTools: HostedTools;
  readonly #mcp: McpServers;
  readonly #outputs: SavedOutputs;
  readonly #clock: Clock;
  readonly #store: Store;
  readonly #signals: StoredSignals;
  readonly #stopping = new AbortController();
  readonly #onFault: AgentHostOptions['onFault'];
  #sweepTimer: NodeJS.Timeout | undefined;
  #isResumed = false;

  private constructor(options: AgentHostOptions, sandbox: Bubblewrap | string) {
    const {
      store,
      key,
      clock,
      chatModels,
      tracer = noopTracer,
      onFault,
      cancelledState,
      isEnabled,
    } = options;
    this.#onFault = onFault;
    this.#clock = clock;
    const shared = { store, clock, chatModels, tracer, onFault };
    const log = new EventLog(store);
    const signals = new StoredSignals(store);
    this.#store = store;
    this.#signals = signals;
    this.events = new EventFeed({ store, signals });
    const receipts = new ReceiptChain({ store, key });
    const sessions = new StoredSessions({ store, operatorHash: options.operatorHash });
    const processes = new StartedProcesses(options.processesFolder);
    processes.endLeftovers();
    const { version, onNotice } = options;
    this.#mcp = new McpServers(options.mcp, { version, clock, onNotice, processes });
    const observe: ObserveReader = {
      ...options.observe,
      sessions: () => this.feed.listRows(200),
      receipts: (limit) => receipts.newest(limit),
      pending: () => this.changes.list(),
    };
    this.#outputs = new SavedOutputs(options.outputsFolder);
    const { forbidden, lab } = options;
    const builtin = builtinTools({
      forbidden,
      sandbox,
      lab,
      observe,
      outputs: this.#outputs,
      processes,
      delegation: { tasks: () => this.tasks, agents: { get: (name) => this.agents.get(name) } },
    });
    const toolbox = new CombinedToolbox([builtin, this.#mcp], typeof sandbox !== 'string');
    const agents = new StoredAgents({ store, tools: toolbox });
    const changes = new PendingChanges({
      ...shared,
      signals,
      tools: toolbox,
      stopping: this.#stopping.signal,
    });
    this.hostedTools = new HostedTools({ servers: this.#mcp.servers, changes });
    const turnRunner = new TurnLoop({ ...shared, toolbox, changes, sessions });
    const runServices = { ...shared, log, agents, turnRunner, sessions, receipts, signals };
    this.tasks = new TaskService({ ...runServices, cancelledState });
    this.ensembles = new Ensembles({ store, builtins: options.builtins, toolbox, agents, isEnabled });
    const host = async (): Promise<HostState> => ({
      ...options.served(),
      pending: await changes.count(),
      tasks_running: this.tasks.running,
      external_sessions: this.external.size,
    });
    this.runs = new WorkflowRuns({
      ...runServices,
      changes,
      cancelledState,
      readHostState: host,
      workflows: this.ensembles,
    });
    this.external = new ExternalSessions({
      ...options.external,
      store,
      receipts,
      signals,
      clock,
      onFault: (error) => onFault('external sessions', error),
    });
    const { tasks, runs, external } = this;
    this.feed = new SessionFeed({ store, tasks, runs, external, cancelledState, startedAt: clock.now() });
    this.webhooks = new Webhooks({
      configs: options.webhooks,
      store,
      signals,
      feed: this.events,
      onNotice,
      onFault,
    });
    this.peers = new Peers({ store });
    this.acts = new ActJournal(store);
    this.agents = agents;
    this.toolbox = toolbox;
    this.changes = changes;
    this.sessions = sessions;
    this.receipts = receipts;
  }

  /** Creates the services and recovers what the previous process of this host left unfinished. */
  static async open(options: AgentHostOptions): Promise<AgentHost> {
    const agentHost = new AgentHost(options, await Bubblewrap.probe());
    await agentHost.#sweep();
    await agentHost.external.start();
    await agentHost.webhooks.start();
    agentHost.#mcp.start();
    agentHost.#sweepTimer = setInterval(() => void agentHost.#sweep(), sweepIntervalMs);
    agentHost.#sweepTimer.unref();
    return agentHost;
  }

  /** Errors are reported; the next sweep tries again. */
  async #sweep(): Promise<void> {
    try {
      this.#outputs.sweep(this.#clock.now().getTime());
    } catch (error) {
      this.#onFault('saved outputs of commands', error);
    }
    await this.changes.sweep().catch((error: unknown) => this.#onFault('pending changes', error));
    const tasks = this.#isResumed ? this.tasks.recover() : this.tasks.findInterrupted();
    await tasks.catch((error: unknown) => this.#onFault('tasks', error));
    await this.#pruneEvents().catch((error: unknown) => this.#onFault('old events', error));
  }

  async #pruneEvents(): Promise<void> {
    await this.#signals.prune();
    await DeliveryStore.prune(this.#store);
  }

  /** Continues interrupted tasks and runs. Call it when the model is loaded, or when it is known that there is none. */
  async resume(): Promise<void> {
    await this.tasks.recover();
    await this.runs.recover();
    this.#isResumed = true;
  }

  /** @throws AgentError unavailable while the host is starting */
  requireResumed(): void {
    if (this.#isResumed) return;
    throw new AgentError('unavailable', 'starting', 'The host is starting; send it again in a moment.');
  }

  /** Ends running tasks and suspends or ends runs, and stores the outcome. */
  async close(): Promise<void> {
    clearInterval(this.#sweepTimer);
    this.#stopping.abort();
    await Promise.all([this.tasks.stop(), this.runs.close(), this.external.stop(), this.#mcp.close()]);
    await this.changes.whenIdle();
    await this.webhooks.stop();
  }
}
