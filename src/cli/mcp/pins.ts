import type { McpServer } from '../../agent/mcp/index.ts';
import { jsonText } from '../../terminal/printable.ts';
import type { World } from '../world.ts';

/** The table to paste into the configuration file. */
export function pinServer(
  { config: { name }, listed }: McpServer,
  { world, json }: { world: World; json: boolean },
): void {
  const tools = [...listed.values()];
  if (json) {
    world.stdout.write(`${jsonText(Object.fromEntries(tools.map((tool) => [tool.name, tool.pin])))}\n`);
    return;
  }
  const lines = tools.map((tool) => `${tomlKey(tool.name)} = "${tool.pin}"\n`);
  world.stdout.write(`[mcp.${name}.pins]\n${lines.join('')}`);
}

/** As TOML has names: quoted where they need to be, and nothing in them that a terminal obeys. */
function tomlKey(name: string): string {
  if (/^[\w-]+$/.test(name)) return name;
  const escaped = name
    .toWellFormed()
    .replace(/[\p{C}\p{Z}"\\]/gu, (mark) =>
      mark === ' ' ? mark : `\\U${(mark.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
    );
  return `"${escaped}"`;
}
