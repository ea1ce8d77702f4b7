import type { Tool, ToolSource } from '../tool.ts';
import type { McpServerConfig } from './config.ts';
import { type McpOptions, McpServer } from './server.ts';

/** The MCP servers that a host is configured with: the only door of this folder. */
export class McpServers implements ToolSource {
  readonly servers: readonly McpServer[];
  /** Whoever exits without a word takes the servers along. */
  readonly #onExit = () => {
    for (const server of this.servers) server.kill();
  };

  constructor(configs: readonly McpServerConfig[], options: McpOptions) {
    this.servers = configs.map((config) => new McpServer(config, options));
  }

  /** Returns at once: they connect in the background, and again when they are lost. */
  start(): void {
    process.once('exit', this.#onExit);
    for (const server of this.servers) server.start();
  }

  tools(): readonly Tool[] {
    return this.servers.flatMap((server) => server.tools());
  }

  /** Ends what it has started; takes two seconds at most. */
  async close(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.close()));
    process.off('exit', this.#onExit);
  }
}

export type { McpServerConfig } from './config.ts';
export type { McpOptions, McpServer } from './server.ts';
export { toolName } from './tool-name.ts';
