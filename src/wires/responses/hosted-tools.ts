import { isRecord, type Json } from '../../util/json.ts';
import type { HostedTool } from '../core/types.ts';
import type { HostedToolUse } from '../core/wire.ts';

/** Types of tools that the provider runs and bills by the call. */
const toolsByType: ReadonlyMap<unknown, HostedTool> = new Map([
  ['web_search', 'web_search'],
  ['web_search_2025_08_26', 'web_search'],
  ['file_search', 'file_search'],
  ['code_interpreter', 'code_interpreter'],
]);

export const hostedToolOf = ({ type }: Json): HostedTool | undefined => toolsByType.get(type);

export const readHostedTools = (tools: readonly unknown[]): HostedToolUse[] =>
  tools.flatMap((tool, index) => {
    const hosted = isRecord(tool) ? hostedToolOf(tool) : undefined;
    return hosted ? [{ tool: hosted, param: `tools.${index}.type` }] : [];
  });
