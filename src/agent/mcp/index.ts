import type { Tool, ToolSource } from '../tool.ts';
import type { McpServerConfig } from './config.ts';
import { type McpOptions, McpServer } from './mcp-server.ts';

/** The configured MCP servers of a host. Public interface of this folder. */
export class McpServers implements ToolSource {
  readonly servers: readonly McpServer[];
  /** Kills the servers when the process exits without `close`. */
  readonly #onExit = () => {
    for (const server of this.servers) server.killProcess();
  };

  constructor(configs: readonly McpServerConfig[], options: McpOptions) {
    this.servers = configs.map((config) => new McpServer(config, options));
  }

  /** Returns at once. Servers connect in the background, and reconnect when the connection is lost. */
  start(): void {
    process.once('exit', this.#onExit);
    for (const server of this.servers) server.start();
  }

  tools(): readonly Tool[] {
    return this.servers.flatMap((server) => server.tools());
  }

  /** Ends all servers; takes at most two seconds. */
  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()));
    process.off('exit', this.#onExit);
  }
}

export type { McpServerConfig } from './config.ts';
export type { McpOptions, McpServer } from './mcp-server.ts';
export { mcpToolName } from './tool-name.ts';
