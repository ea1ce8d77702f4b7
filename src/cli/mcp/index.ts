import { systemClock } from '../../agent/clock.ts';
import { type McpServer, McpServers } from '../../agent/mcp/index.ts';
import type { Command } from '../../config/commands.ts';
import { readSecrets } from '../../config/secrets.ts';
import { unlessAborted } from '../../util/abort.ts';
import { didYouMean } from '../../words/nearest.ts';
import type { Settings } from '../../config/toml.ts';
import { StartError } from '../start-error.ts';
import type { World } from '../world.ts';
import { listServers } from './list.ts';
import { pinServer } from './pins.ts';
import { showServer } from './show.ts';

type McpCommand = Extract<Command, { verb: 'mcp' }>;

/** `mcp list`, `show` and `pins`: connects to the servers as the host would and reads their tools. */
export async function inspectMcp(
  { action, name, json, config }: McpCommand,
  settings: Settings,
  { world, version, interrupted }: { world: World; version: string; interrupted: AbortSignal },
): Promise<void> {
  const tables = settings.mcp ?? {};
  const known = Object.keys(tables);
  if (known.length === 0) {
    const where = config === undefined ? 'a TOML file and name it with --config FILE' : config;
    throw new StartError(`no MCP servers are configured; add tables [mcp.NAME] to ${where} (docs/mcp.md).`);
  }
  if (name !== undefined && !Object.hasOwn(tables, name))
    throw new StartError(
      `there is no MCP server '${name}'${didYouMean(name, known, (near) => `'${near}'`)}. Configured: ${known.join(', ')}.`,
    );
  const wanted = Object.entries(tables).filter(([one]) => name === undefined || one === name);
  // A server that is requested by name is shown even if it is disabled.
  const asked =
    name === undefined ? wanted : wanted.map(([one, table]) => [one, { ...table, enabled: true }]);
  const { mcp } = await readSecrets(
    { mcp: Object.fromEntries(asked) as Settings['mcp'] & object },
    world.env,
  );
  // The output already contains what notices would report.
  const servers = new McpServers(mcp, { version, clock: systemClock, onNotice: () => undefined });
  servers.start();
  try {
    await unlessAborted(Promise.all(servers.servers.map(({ settled }) => settled)), interrupted);
    if (action === 'list') listServers(tables, servers.servers, { world, json });
    else look(action, servers.servers[0]);
  } finally {
    await servers.close();
  }

  function look(at: 'show' | 'pins', server: McpServer | undefined): void {
    if (server === undefined) return;
    if (server.down !== undefined)
      throw new StartError(`the MCP server '${server.config.name}': ${server.down}.`);
    if (at === 'show') showServer(server, { world, json });
    else pinServer(server, { world, json });
  }
}
