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
    reason: text.optional().describe('Why it is gated or unavailable, and what would change that.'),
    pin: text.optional().describe('Of a tool of an MCP server: the hash to pin it by.'),
  })
  .meta({ id: 'ToolCatalogEntry' });
export type ToolCatalogEntry = z.infer<typeof toolCatalogEntry>;
