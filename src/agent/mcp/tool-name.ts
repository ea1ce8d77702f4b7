import { createHash } from 'node:crypto';

const longest = 64;

/**
 * What agents call a tool of a server: `mcp_SERVER_TOOL` of letters, digits, `_` and `-`, at most 64 of them. Where the
 * server's own name does not survive that, a piece of its hash keeps it apart from others. Names of servers have no `_`.
 */
export function toolName(server: string, tool: string): string {
  const prefix = `mcp_${server}_`;
  const plain = tool.replace(/[^a-zA-Z0-9_-]/g, '_');
  if (plain === tool && plain !== '' && prefix.length + plain.length <= longest) return prefix + plain;
  const mark = createHash('sha256').update(tool.toWellFormed()).digest('hex').slice(0, 8);
  return `${prefix}${plain.slice(0, longest - prefix.length - mark.length - 1)}_${mark}`;
}
