import { createHash } from 'node:crypto';

const longest = 64;

/**
 * Name of a server's tool for agents: `mcp_SERVER_TOOL`, at most 64 letters, digits, `_` and `-`. If the server's own
 * name has to be changed for that, a part of its hash keeps the name unique. Server names contain no `_`.
 */
export function toolName(server: string, tool: string): string {
  const prefix = `mcp_${server}_`;
  const plain = tool.replace(/[^a-zA-Z0-9_-]/g, '_');
  if (plain === tool && plain !== '' && prefix.length + plain.length <= longest) return prefix + plain;
  const mark = createHash('sha256').update(tool.toWellFormed()).digest('hex').slice(0, 8);
  return `${prefix}${plain.slice(0, longest - prefix.length - mark.length - 1)}_${mark}`;
}
