import type { McpServer } from '../../agent/mcp/index.ts';
import { formatJson } from '../../terminal/printable.ts';
import type { CliContext } from '../cli-context.ts';

/** Prints the table of pins to paste into the configuration file. */
export function printPins(
  { config: { name }, listedTools: listed }: McpServer,
  { cli, json }: { cli: CliContext; json: boolean },
): void {
  const tools = [...listed.values()];
  if (json) {
    cli.stdout.write(`${formatJson(Object.fromEntries(tools.map((tool) => [tool.name, tool.pin])))}\n`);
    return;
  }
  const lines = tools.map((tool) => `${tomlKey(tool.name)} = "${tool.pin}"\n`);
  cli.stdout.write(`[mcp.${name}.pins]\n${lines.join('')}`);
}

/** A TOML key, quoted where needed. Control characters are escaped, so that a terminal cannot interpret them. */
function tomlKey(name: string): string {
  if (/^[\w-]+$/.test(name)) return name;
  const escaped = name
    .toWellFormed()
    .replace(/[\p{C}\p{Z}"\\]/gu, (mark) =>
      mark === ' ' ? mark : `\\U${(mark.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
    );
  return `"${escaped}"`;
}
