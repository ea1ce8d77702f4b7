import type { ToolChoice, ToolDefinition } from '../../chat/index.ts';
import type { Json } from '../../util/json.ts';
import { allowedTools, type ToolBody, toToolChoice } from '../../wires/chat/tools-schema.ts';

/** Converts tools and tool choice for the chat template. */
export function toTools(body: ToolBody): {
  tools?: ToolDefinition[];
  toolChoice?: ToolChoice;
  parallelToolCalls?: boolean;
} {
  if (!body.tools || body.tools.length === 0) return {};
  const { tool_choice: choice, parallel_tool_calls: parallel } = body;
  return {
    tools: allowedTools(body.tools, choice).map((tool) => toTool(tool.function)),
    toolChoice: toToolChoice(choice) ?? 'auto',
    ...(typeof parallel === 'boolean' ? { parallelToolCalls: parallel } : {}),
  };
}

interface FunctionMembers {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly parameters?: Json | null | undefined;
  readonly strict?: boolean | null | undefined;
}

export const toTool = ({ name, description, parameters, strict }: FunctionMembers): ToolDefinition => ({
  name,
  ...(description ? { description } : {}),
  ...(parameters ? { parameters } : {}),
  ...(strict ? { strict } : {}),
});
