import type { Clock } from '../clock.ts';
import type { Tool, ToolOutput, ToolSource } from '../tool.ts';
import type { McpClient } from './client.ts';
import type { McpServerConfig } from './config.ts';
import { type ListedTool, listedTool } from './listed-tool.ts';
import { toolName } from './tool-name.ts';
import { absentTool, type ServerView, toolOf } from './tools.ts';

export interface McpOptions {
  /** Of this program: servers are told it. */
  readonly version: string;
  readonly clock: Clock;
  /** Hears when a server comes, goes, or lists what cannot be used. */
  readonly onNotice: (message: string) => void;
  readonly timings?: Partial<Timings>;
}

/** Milliseconds. */
interface Timings {
  /** Before the first and at the most before any further try to connect. */
  readonly retryFirst: number;
  readonly retryMost: number;
  /** Between looks at whether an idle server still answers. */
  readonly checkEvery: number;
  /** Between two lists, however often a server says that its list has changed. */
  readonly listEvery: number;
}
const usual: Timings = { retryFirst: 1000, retryMost: 60_000, checkEvery: 30_000, listEvery: 1000 };

type Phase =
  | { readonly is: 'connecting' }
  | { readonly is: 'up'; readonly client: McpClient; readonly since: number }
  | { readonly is: 'down'; readonly why: string }
  | { readonly is: 'closed' };

/** One server: connected in the background, again and again, and its tools as they are at the moment. */
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
  /** It said that its list has changed before it was up. */
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

  /** Returns at once. */
  start(): void {
    this.#connecting = this.#connect();
  }

  tools(): readonly Tool[] {
    return this.#tools;
  }

  /** As the server listed them last. */
  get listed(): ReadonlyMap<string, ListedTool> {
    return this.#listed;
  }

  /** Tools that it lists and that cannot be offered to anybody, and why. */
  get unusable(): ReadonlyMap<string, string> {
    return this.#unusable;
  }

  /** Why nothing of it can be called, or nothing. */
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

  /** Resolves when it is known whether the first try to connect went well. */
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
      // Whoever does not answer a call may still be there, or not.
      if (!answered) void this.#check(phase.client);
    }
  }

  /** In order; takes two seconds at most. */
  async close(): Promise<void> {
    const phase = this.#phase;
    this.#phase = { is: 'closed' };
    clearTimeout(this.#timer);
    this.#stop.abort();
    await this.#connecting;
    if (phase.is === 'up') await phase.client.close().catch(() => undefined);
    this.#settled.resolve();
  }

  /** For the end of the process: at once. */
  kill(): void {
    this.#kill();
  }

  async #connect(): Promise<void> {
    this.#tries++;
    let client: McpClient | undefined;
    try {
      // The protocol's code is read only where a server is configured.
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

  /** What it said last stays, with the reason why it cannot be called. */
  async #lost(error: unknown): Promise<void> {
    const { problemOf } = await import('./problem.ts');
    if (this.#isClosed()) return;
    const why = problemOf(error, this.config);
    const phase = this.#phase;
    // One that was up for long begins its tries anew.
    if (phase.is === 'up' && this.#options.clock.monotonic() - phase.since > this.#timings.retryMost)
      this.#tries = 1;
    const wait = Math.min(
      this.#timings.retryMost,
      this.#timings.retryFirst * 2 ** Math.min(this.#tries - 1, 20),
    );
    if (phase.is !== 'down' || phase.why !== why)
      this.#options.onNotice(`MCP server '${this.config.name}': ${why}; it is tried again`);
    this.#phase = { is: 'down', why };
    this.#settled.resolve();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.start(), wait).unref();
  }

  #watch(client: McpClient): void {
    clearTimeout(this.#timer);
    const look = async () => {
      // Not every server says when its tools become others. One that works on a call may well answer nothing meanwhile.
      if (this.#calls === 0) await this.refresh();
      if (this.#isAt(client)) this.#watch(client);
    };
    this.#timer = setTimeout(() => void look(), this.#timings.checkEvery).unref();
  }

  /** Lists the tools as they are right now; a server that cannot be asked is lost. */
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

  /** One list at a time, however often the server says that it has changed. */
  #relist(): void {
    this.#outdated = true;
    if (this.#phase.is !== 'up' || this.#listing) return;
    this.#listing = true;
    const list = () => {
      // What changes from here on asks for another list.
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

  /** Those that are listed, and those that are pinned but not listed. */
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
