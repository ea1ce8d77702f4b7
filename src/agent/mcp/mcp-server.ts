import type { Clock } from '../clock.ts';
import type { Tool, ToolOutput, ToolSource } from '../tool.ts';
import type { McpClient } from './mcp-client.ts';
import type { StartedProcesses } from '../started-processes.ts';
import type { McpServerConfig } from './config.ts';
import { type ListedTool, parseListedTool } from './listed-tool.ts';
import { mcpToolName } from './tool-name.ts';
import { createAbsentTool, type McpServerView, createTool } from './create-tool.ts';

export interface McpOptions {
  /** Version of this program, sent to servers. */
  readonly version: string;
  readonly clock: Clock;
  /** Records started servers; by default they are not recorded. */
  readonly processes?: StartedProcesses;
  /** Called when a server connects, is lost, or lists an unusable tool. */
  readonly onNotice: (message: string) => void;
  readonly timings?: Partial<Timings>;
}

/** Delays in milliseconds. */
interface Timings {
  /** Delay before the first reconnection, and maximum delay. */
  readonly minRetryDelayMs: number;
  readonly maxRetryDelayMs: number;
  /** Interval at which an idle server is checked. */
  readonly checkIntervalMs: number;
  /** Minimum time between two lists, however often the server reports a change. */
  readonly minListIntervalMs: number;
}
const defaultTimings: Timings = {
  minRetryDelayMs: 1000,
  maxRetryDelayMs: 60_000,
  checkIntervalMs: 30_000,
  minListIntervalMs: 1000,
};

type Phase =
  | { readonly is: 'connecting' }
  | { readonly is: 'up'; readonly client: McpClient; readonly connectedAtMs: number }
  | { readonly is: 'down'; readonly reason: string }
  | { readonly is: 'closed' };

/** One server: keeps a connection in the background, and provides the current tools. */
export class McpServer implements ToolSource, McpServerView {
  readonly config: McpServerConfig;
  readonly #options: McpOptions;
  readonly #timings: Timings;
  #phase: Phase = { is: 'connecting' };
  #listedTools: ReadonlyMap<string, ListedTool> = new Map();
  #unusableTools: ReadonlyMap<string, string> = new Map();
  #tools: readonly Tool[];
  #connectAttempts = 0;
  #runningCalls = 0;
  #timer: NodeJS.Timeout | undefined;
  #isListing = false;
  /** The server reported a changed list before it was connected. */
  #isListOutdated = false;
  #connecting: Promise<void> | undefined;
  #killProcess: () => void = () => undefined;
  readonly #closing = new AbortController();
  readonly #firstAttempt = Promise.withResolvers<void>();

  constructor(config: McpServerConfig, options: McpOptions) {
    this.config = config;
    this.#options = options;
    this.#timings = { ...defaultTimings, ...options.timings };
    this.#tools = this.#assembleTools();
  }

  /** Starts connecting; returns at once. */
  start(): void {
    this.#connecting = this.#connect();
  }

  tools(): readonly Tool[] {
    return this.#tools;
  }

  /** Tools of the last list, by the server's name. */
  get listedTools(): ReadonlyMap<string, ListedTool> {
    return this.#listedTools;
  }

  /** Listed tools that cannot be used, with the problem. */
  get unusableTools(): ReadonlyMap<string, string> {
    return this.#unusableTools;
  }

  /** Why the server cannot be called now; undefined when it can. */
  get downReason(): string | undefined {
    switch (this.#phase.is) {
      case 'up':
        return undefined;
      case 'connecting':
        return 'it is being started';
      case 'down':
        return this.#phase.reason;
      case 'closed':
        return 'the host is shutting down';
    }
  }

  /** Resolves when the first attempt to connect has succeeded or failed. */
  get firstAttempt(): Promise<void> {
    return this.#firstAttempt.promise;
  }

  async call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<ToolOutput> {
    const phase = this.#phase;
    if (phase.is !== 'up')
      return failedOutput(`The MCP server '${this.config.name}' is not there: ${this.downReason}.`);
    this.#runningCalls++;
    let hasAnswered = false;
    try {
      const output = await phase.client.call(name, args, signal);
      hasAnswered = true;
      return output;
    } catch (error) {
      signal.throwIfAborted();
      const { isServerError: isAnswer, describeFailure: problemOf } = await import('./describe-failure.ts');
      const outcomeHint = isAnswer(error) ? '' : ' Whether it was done is not known.';
      return failedOutput(
        `The call of '${name}' of the MCP server '${this.config.name}' failed: ${problemOf(error, this.config)}.${outcomeHint}`,
      );
    } finally {
      this.#runningCalls--;
      // The server did not answer this call; check whether it is still alive.
      if (!hasAnswered) void this.#checkConnection(phase.client);
    }
  }

  /** Ends the server in order; takes at most two seconds. */
  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = { is: 'closed' };
    clearTimeout(this.#timer);
    this.#closing.abort();
    await this.#connecting;
    if (phase.is === 'up') await phase.client.close().catch(() => undefined);
    this.#firstAttempt.resolve();
  }

  /** Kills the server at once, when the process exits. */
  killProcess(): void {
    this.#killProcess();
  }

  async #connect(): Promise<void> {
    this.#connectAttempts++;
    let client: McpClient | undefined;
    try {
      // The SDK is loaded only when a server is configured.
      const { connectClient: openClient } = await import('./mcp-client.ts');
      client = await openClient(this.config, {
        version: this.#options.version,
        ...(this.#options.processes ? { processes: this.#options.processes } : {}),
        signal: this.#closing.signal,
        onStarted: (kill) => {
          this.#killProcess = kill;
        },
        onListChanged: () => this.#scheduleList(),
        onLost: (reason) => void this.#onConnectionLost(reason),
      });
      this.#isListOutdated = false;
      this.#updateTools(await client.tools());
    } catch (error) {
      await client?.close().catch(() => undefined);
      await this.#onConnectionLost(error);
      return;
    }
    if (this.#isClosed()) {
      await client.close().catch(() => undefined);
      return;
    }
    this.#phase = { is: 'up', client, connectedAtMs: this.#options.clock.monotonic() };
    this.#firstAttempt.resolve();
    const { name } = this.config;
    this.#options.onNotice(`MCP server '${name}': connected, ${this.#listedTools.size} tools`);
    this.#scheduleCheck(client);
    if (this.#isListOutdated) this.#scheduleList();
  }

  /** The last list stays, and its tools become unavailable. */
  async #onConnectionLost(error: unknown): Promise<void> {
    const { describeFailure: problemOf } = await import('./describe-failure.ts');
    if (this.#isClosed()) return;
    const reason = problemOf(error, this.config);
    const phase = this.#phase;
    // A server that was up for long starts again with the shortest delay.
    if (
      phase.is === 'up' &&
      this.#options.clock.monotonic() - phase.connectedAtMs > this.#timings.maxRetryDelayMs
    )
      this.#connectAttempts = 1;
    const delayMs = Math.min(
      this.#timings.maxRetryDelayMs,
      this.#timings.minRetryDelayMs * 2 ** Math.min(this.#connectAttempts - 1, 20),
    );
    if (phase.is !== 'down' || phase.reason !== reason)
      this.#options.onNotice(`MCP server '${this.config.name}': ${reason}; retrying`);
    this.#phase = { is: 'down', reason };
    this.#firstAttempt.resolve();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.start(), delayMs).unref();
  }

  #scheduleCheck(client: McpClient): void {
    clearTimeout(this.#timer);
    const check = async () => {
      // Not every server reports changed tools. A server that works on a call may not answer meanwhile.
      if (this.#runningCalls === 0) await this.refresh();
      if (this.#isCurrent(client)) this.#scheduleCheck(client);
    };
    this.#timer = setTimeout(() => void check(), this.#timings.checkIntervalMs).unref();
  }

  /** Lists the tools again; a server that does not answer is lost. */
  async refresh(): Promise<void> {
    const phase = this.#phase;
    if (phase.is !== 'up') return;
    try {
      const tools = await phase.client.tools();
      if (this.#isCurrent(phase.client)) this.#updateTools(tools);
    } catch {
      await this.#checkConnection(phase.client);
    }
  }

  async #checkConnection(client: McpClient): Promise<void> {
    if (this.#isCurrent(client) && this.#runningCalls === 0) await client.ping();
  }

  /** Lists again, at most one request at a time. */
  #scheduleList(): void {
    this.#isListOutdated = true;
    if (this.#phase.is !== 'up' || this.#isListing) return;
    this.#isListing = true;
    const listTools = () => {
      // A later change requests another list.
      this.#isListing = false;
      this.#isListOutdated = false;
      void this.refresh();
    };
    setTimeout(listTools, this.#timings.minListIntervalMs).unref();
  }

  #updateTools(rawTools: readonly unknown[]): void {
    const listed = new Map<string, ListedTool>();
    const unusable = new Map<string, string>();
    const names = new Set<string>();
    for (const rawTool of rawTools) {
      const tool = parseListedTool(rawTool);
      const name = mcpToolName(this.config.name, tool.name);
      if ('problem' in tool) unusable.set(tool.name, tool.problem);
      else if (listed.has(tool.name)) unusable.set(tool.name, 'it is listed twice; the first one counts');
      else if (names.has(name)) unusable.set(tool.name, `another tool before it is called ${name}, too`);
      else listed.set(tool.name, tool);
      names.add(name);
    }
    for (const [tool, problem] of unusable)
      if (this.#unusableTools.get(tool) !== problem)
        this.#options.onNotice(`MCP server '${this.config.name}', tool ${JSON.stringify(tool)}: ${problem}`);
    this.#listedTools = listed;
    this.#unusableTools = unusable;
    this.#tools = this.#assembleTools();
  }

  /** Listed tools, and pinned tools that are not listed. */
  #assembleTools(): readonly Tool[] {
    const notListed = [...this.config.pins].filter(([name]) => !this.#listedTools.has(name));
    return [
      ...[...this.#listedTools.values()].map((listed) => createTool(listed, this)),
      ...notListed.map(([name, pin]) => createAbsentTool(name, pin, this)),
    ];
  }

  #isCurrent(client: McpClient): boolean {
    return this.#phase.is === 'up' && this.#phase.client === client;
  }

  #isClosed(): boolean {
    return this.#phase.is === 'closed';
  }
}

const failedOutput = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
