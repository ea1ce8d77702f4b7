import type { McpServer } from '../../agent/mcp/index.ts';
import type { McpTable } from '../../config/tables.ts';
import { formatTable } from '../models/format-table.ts';
import { formatJson } from '../../terminal/printable.ts';
import type { CliContext } from '../cli-context.ts';
import { type PinState, pinStates } from './pin-state.ts';

/** Prints one line per server. The line of a server that cannot be used has the reason. */
export function printServerList(
  tables: Readonly<Record<string, McpTable>>,
  servers: readonly McpServer[],
  { cli, json }: { cli: CliContext; json: boolean },
): void {
  const rows = Object.entries(tables).map(([name, table]) => {
    const server = servers.find(({ config }) => config.name === name);
    return { name, reached: reachedBy(table), ...stateOf(server) };
  });
  if (json) {
    cli.stdout.write(`${formatJson(rows)}\n`);
    return;
  }
  const cells = rows.map(({ name, reached, state, tools, problem }) => {
    const counts = Object.entries(tools ?? {}).filter(([, count]) => count > 0);
    const summary =
      problem ?? counts.map(([what, count]) => `${count} ${stateLabels[what as PinState]}`).join(', ');
    return [name, reached, state, summary];
  });
  cli.stdout.write(formatTable(['NAME', 'REACHED BY', 'STATE', 'TOOLS'], cells));
}

const stateLabels: Readonly<Record<PinState, string>> = {
  pinned: 'pinned',
  unpinned: 'not pinned',
  changed: 'changed since pinned',
  missing: 'pinned but no longer listed',
};

function stateOf(server: McpServer | undefined): {
  state: 'up' | 'down' | 'disabled';
  problem?: string;
  tools?: Record<PinState, number>;
} {
  if (server === undefined) return { state: 'disabled' };
  if (server.downReason !== undefined) return { state: 'down', problem: server.downReason };
  const tools: Record<PinState, number> = { pinned: 0, unpinned: 0, changed: 0, missing: 0 };
  for (const { state } of pinStates(server)) tools[state]++;
  return { state: 'up', tools };
}

/** Program or URL of a server, without arguments and query, which may contain secrets. */
function reachedBy({ command, url }: McpTable): string {
  if (url === undefined) return command?.[0] ?? '';
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
