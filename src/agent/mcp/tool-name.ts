import { createHash } from 'node:crypto';

const maxLength = 64;

/**
 * Name of a server's tool for agents: `mcp_SERVER_TOOL`, at most 64 letters, digits, `_` and `-`. If the server's own
 * name has to be changed for that, a part of its hash keeps the name unique. Server names contain no `_`.
 */
export function mcpToolName(server: string, tool: string): string {
  const prefix = `mcp_${server}_`;
  const sanitized = tool.replace(/[^a-zA-Z0-9_-]/g, '_');
  if (sanitized === tool && sanitized !== '' && prefix.length + sanitized.length <= maxLength)
    return prefix + sanitized;
  const hashSuffix = createHash('sha256').update(tool.toWellFormed()).digest('hex').slice(0, 8);
  return `${prefix}${sanitized.slice(0, maxLength - prefix.length - hashSuffix.length - 1)}_${hashSuffix}`;
}
