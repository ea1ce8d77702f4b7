import { z } from 'zod';
import { text } from './common.ts';

export const toolCatalogEntry = z
  .object({
    name: text,
    description: text,
    source: text.regex(/^(?:builtin|mcp:.+)$/).describe('`builtin` or `mcp:<server>`.'),
    input_schema: z.record(z.string(), z.unknown()),
    destructive: z.boolean(),
    availability: z.enum(['available', 'gated', 'unavailable']),
    reason: text.optional().describe('Why the tool is gated or unavailable, and how to change that.'),
    pin: text.optional().describe('For tools of MCP servers: the hash to pin the tool by.'),
  })
  .meta({ id: 'ToolCatalogEntry' });
export type ToolCatalogEntry = z.infer<typeof toolCatalogEntry>;
