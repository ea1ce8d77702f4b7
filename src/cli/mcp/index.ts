import { systemClock } from '../../agent/clock.ts';
import { type McpServer, McpServers } from '../../agent/mcp/index.ts';
import type { Command } from '../../config/commands.ts';
import { resolveSecrets } from '../../config/secrets.ts';
import { raceAbort } from '../../util/race-abort.ts';
import { didYouMean } from '../../words/nearest.ts';
import type { Settings } from '../../config/toml.ts';
import { StartError } from '../start-error.ts';
import type { CliContext } from '../cli-context.ts';
import { printServerList } from './list.ts';
import { printPins } from './pins.ts';
import { printServerTools } from './show.ts';

type McpCommand = Extract<Command, { verb: 'mcp' }>;

/** `mcp list`, `show` and `pins`: connects to the servers as the host would and reads their tools. */
export async function inspectMcp(
  { action, name, json, config }: McpCommand,
  settings: Settings,
  { cli, version, abortSignal }: { cli: CliContext; version: string; abortSignal: AbortSignal },
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
  const selected = Object.entries(tables).filter(([one]) => name === undefined || one === name);
  // A server that is requested by name is shown even if it is disabled.
  const requestedTables =
    name === undefined ? selected : selected.map(([one, table]) => [one, { ...table, enabled: true }]);
  const { mcp } = await resolveSecrets(
    { mcp: Object.fromEntries(requestedTables) as Settings['mcp'] & object },
    cli.env,
  );
  // The output already contains what notices would report.
  const servers = new McpServers(mcp, { version, clock: systemClock, onNotice: () => undefined });
  servers.start();
  try {
    await raceAbort(Promise.all(servers.servers.map(({ firstAttempt: settled }) => settled)), abortSignal);
    if (action === 'list') printServerList(tables, servers.servers, { cli, json });
    else printServer(action, servers.servers[0]);
  } finally {
    await servers.close();
  }

  function printServer(output: 'show' | 'pins', server: McpServer | undefined): void {
    if (server === undefined) return;
    if (server.downReason !== undefined)
      throw new StartError(`the MCP server '${server.config.name}': ${server.downReason}.`);
    if (output === 'show') printServerTools(server, { cli, json });
    else printPins(server, { cli, json });
  }
}
