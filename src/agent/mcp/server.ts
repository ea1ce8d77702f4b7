import type { Clock } from '../clock.ts';
import type { Tool, ToolOutput, ToolSource } from '../tool.ts';
import type { McpClient } from './client.ts';
import type { McpServerConfig } from './config.ts';
import { type ListedTool, listedTool } from './listed-tool.ts';
import { toolName } from './tool-name.ts';
import { absentTool, type ServerView, toolOf } from './tools.ts';

export interface McpOptions {
  /** Version of this program, sent to servers. */
  readonly version: string;
  readonly clock: Clock;
  /** Called when a server connects, is lost, or lists an unusable tool. */
  readonly onNotice: (message: string) => void;
  readonly timings?: Partial<Timings>;
}

/** Delays in milliseconds. */
interface Timings {
  /** Delay before the first reconnection, and maximum delay. */
  readonly retryFirst: number;
  readonly retryMost: number;
  /** Interval at which an idle server is checked. */
  readonly checkEvery: number;
  /** Minimum time between two lists, however often the server reports a change. */
  readonly listEvery: number;
}
const usual: Timings = { retryFirst: 1000, retryMost: 60_000, checkEvery: 30_000, listEvery: 1000 };

type Phase =
  | { readonly is: 'connecting' }
  | { readonly is: 'up'; readonly client: McpClient; readonly since: number }
  | { readonly is: 'down'; readonly why: string }
  | { readonly is: 'closed' };

/** One server: keeps a connection in the background, and provides the current tools. */
export class McpServer implements ToolSource, ServerView {
  readonly config: McpServerConfig;
  readonly #options: McpOptions;
  readonly #timings: Timings;
  #phase: Phase = { is: 'connecting' };
  #listed: ReadonlyMap<string, ListedTool> = new Map();
  #unusable: ReadonlyMap<string, string> = new Map();
  #tools: readonly Tool[];
  #tries = 0;
  #calls = 0;
  #timer: NodeJS.Timeout | undefined;
  #listing = false;
  /** The server reported a changed list before it was connected. */
  #outdated = false;
  #connecting: Promise<void> | undefined;
  #kill: () => void = () => undefined;
  readonly #stop = new AbortController();
  readonly #settled = Promise.withResolvers<void>();

  constructor(config: McpServerConfig, options: McpOptions) {
    this.config = config;
    this.#options = options;
    this.#timings = { ...usual, ...options.timings };
    this.#tools = this.#assembled();
  }

  /** Starts connecting; returns at once. */
  start(): void {
    this.#connecting = this.#connect();
  }

  tools(): readonly Tool[] {
    return this.#tools;
  }

  /** Tools of the last list, by the server's name. */
  get listed(): ReadonlyMap<string, ListedTool> {
    return this.#listed;
  }

  /** Listed tools that cannot be used, with the problem. */
  get unusable(): ReadonlyMap<string, string> {
    return this.#unusable;
  }

  /** Why the server cannot be called now; undefined when it can. */
  get down(): string | undefined {
    switch (this.#phase.is) {
      case 'up':
        return undefined;
      case 'connecting':
        return 'it is being started';
      case 'down':
        return this.#phase.why;
      case 'closed':
        return 'the host is shutting down';
    }
  }

  /** Resolves when the first attempt to connect has succeeded or failed. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  async call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<ToolOutput> {
    const phase = this.#phase;
    if (phase.is !== 'up') return failed(`The MCP server '${this.config.name}' is not there: ${this.down}.`);
    this.#calls++;
    let answered = false;
    try {
      const output = await phase.client.call(name, args, signal);
      answered = true;
      return output;
    } catch (error) {
      signal.throwIfAborted();
      const { isAnswer, problemOf } = await import('./problem.ts');
      const unknown = isAnswer(error) ? '' : ' Whether it was done is not known.';
      return failed(
        `The call of '${name}' of the MCP server '${this.config.name}' failed: ${problemOf(error, this.config)}.${unknown}`,
      );
    } finally {
      this.#calls--;
      // The server did not answer this call; check whether it is still alive.
      if (!answered) void this.#check(phase.client);
    }
  }

  /** Ends the server in order; takes at most two seconds. */
  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = { is: 'closed' };
    clearTimeout(this.#timer);
    this.#stop.abort();
    await this.#connecting;
    if (phase.is === 'up') await phase.client.close().catch(() => undefined);
    this.#settled.resolve();
  }

  /** Kills the server at once, when the process exits. */
  kill(): void {
    this.#kill();
  }

  async #connect(): Promise<void> {
    this.#tries++;
    let client: McpClient | undefined;
    try {
      // The SDK is loaded only when a server is configured.
      const { openClient } = await import('./client.ts');
      client = await openClient(this.config, {
        version: this.#options.version,
        signal: this.#stop.signal,
        onStarted: (kill) => {
          this.#kill = kill;
        },
        onListChanged: () => this.#relist(),
        onLost: (why) => void this.#lost(why),
      });
      this.#outdated = false;
      this.#take(await client.tools());
    } catch (error) {
      await client?.close().catch(() => undefined);
      await this.#lost(error);
      return;
    }
    if (this.#isClosed()) {
      await client.close().catch(() => undefined);
      return;
    }
    this.#phase = { is: 'up', client, since: this.#options.clock.monotonic() };
    this.#settled.resolve();
    const { name } = this.config;
    this.#options.onNotice(`MCP server '${name}': connected, ${this.#listed.size} tools`);
    this.#watch(client);
    if (this.#outdated) this.#relist();
  }

  /** The last list stays, and its tools become unavailable. */
  async #lost(error: unknown): Promise<void> {
    const { problemOf } = await import('./problem.ts');
    if (this.#isClosed()) return;
    const why = problemOf(error, this.config);
    const phase = this.#phase;
    // A server that was up for long starts again with the shortest delay.
    if (phase.is === 'up' && this.#options.clock.monotonic() - phase.since > this.#timings.retryMost)
      this.#tries = 1;
    const wait = Math.min(
      this.#timings.retryMost,
      this.#timings.retryFirst * 2 ** Math.min(this.#tries - 1, 20),
    );
    if (phase.is !== 'down' || phase.why !== why)
      this.#options.onNotice(`MCP server '${this.config.name}': ${why}; retrying`);
    this.#phase = { is: 'down', why };
    this.#settled.resolve();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.start(), wait).unref();
  }

  #watch(client: McpClient): void {
    clearTimeout(this.#timer);
    const look = async () => {
      // Not every server reports changed tools. A server that works on a call may not answer meanwhile.
      if (this.#calls === 0) await this.refresh();
      if (this.#isAt(client)) this.#watch(client);
    };
    this.#timer = setTimeout(() => void look(), this.#timings.checkEvery).unref();
  }

  /** Lists the tools again; a server that does not answer is lost. */
  async refresh(): Promise<void> {
    const phase = this.#phase;
    if (phase.is !== 'up') return;
    try {
      const tools = await phase.client.tools();
      if (this.#isAt(phase.client)) this.#take(tools);
    } catch {
      await this.#check(phase.client);
    }
  }

  async #check(client: McpClient): Promise<void> {
    if (this.#isAt(client) && this.#calls === 0) await client.check();
  }

  /** Lists again, at most one request at a time. */
  #relist(): void {
    this.#outdated = true;
    if (this.#phase.is !== 'up' || this.#listing) return;
    this.#listing = true;
    const list = () => {
      // A later change requests another list.
      this.#listing = false;
      this.#outdated = false;
      void this.refresh();
    };
    setTimeout(list, this.#timings.listEvery).unref();
  }

  #take(raw: readonly unknown[]): void {
    const listed = new Map<string, ListedTool>();
    const unusable = new Map<string, string>();
    const names = new Set<string>();
    for (const one of raw) {
      const tool = listedTool(one);
      const name = toolName(this.config.name, tool.name);
      if ('problem' in tool) unusable.set(tool.name, tool.problem);
      else if (listed.has(tool.name)) unusable.set(tool.name, 'it is listed twice; the first one counts');
      else if (names.has(name)) unusable.set(tool.name, `another tool before it is called ${name}, too`);
      else listed.set(tool.name, tool);
      names.add(name);
    }
    for (const [tool, problem] of unusable)
      if (this.#unusable.get(tool) !== problem)
        this.#options.onNotice(`MCP server '${this.config.name}', tool ${JSON.stringify(tool)}: ${problem}`);
    this.#listed = listed;
    this.#unusable = unusable;
    this.#tools = this.#assembled();
  }

  /** Listed tools, and pinned tools that are not listed. */
  #assembled(): readonly Tool[] {
    const absent = [...this.config.pins].filter(([name]) => !this.#listed.has(name));
    return [
      ...[...this.#listed.values()].map((listed) => toolOf(listed, this)),
      ...absent.map(([name, pin]) => absentTool(name, pin, this)),
    ];
  }

  #isAt(client: McpClient): boolean {
    return this.#phase.is === 'up' && this.#phase.client === client;
  }

  #isClosed(): boolean {
    return this.#phase.is === 'closed';
  }
}

const failed = (output: string): ToolOutput => ({ ok: false, output, truncated: false });
