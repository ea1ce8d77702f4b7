import type { McpServer } from '../../agent/mcp/index.ts';
import type { McpTable } from '../../config/tables.ts';
import { columns } from '../models/columns.ts';
import { jsonText } from '../../terminal/printable.ts';
import type { World } from '../world.ts';
import { type PinState, pinStates } from './pin-state.ts';

/** Prints one line per server. The line of a server that cannot be used has the reason. */
export function listServers(
  tables: Readonly<Record<string, McpTable>>,
  servers: readonly McpServer[],
  { world, json }: { world: World; json: boolean },
): void {
  const rows = Object.entries(tables).map(([name, table]) => {
    const server = servers.find(({ config }) => config.name === name);
    return { name, reached: reachedBy(table), ...stateOf(server) };
  });
  if (json) {
    world.stdout.write(`${jsonText(rows)}\n`);
    return;
  }
  const cells = rows.map(({ name, reached, state, tools, problem }) => {
    const counts = Object.entries(tools ?? {}).filter(([, count]) => count > 0);
    const remark = problem ?? counts.map(([what, count]) => `${count} ${words[what as PinState]}`).join(', ');
    return [name, reached, state, remark];
  });
  world.stdout.write(columns(['NAME', 'REACHED BY', 'STATE', 'TOOLS'], cells));
}

const words: Readonly<Record<PinState, string>> = {
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
  if (server.down !== undefined) return { state: 'down', problem: server.down };
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
