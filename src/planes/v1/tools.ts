import type { ToolChoice, ToolDefinition } from '../../chat/index.ts';
import type { Violation } from '../../http/error.ts';
import type { Json } from '../../util/json.ts';
import { askedFor, offered, type ToolBody, toolChoiceOf } from '../../wires/chat/tools-schema.ts';
import { refuseLarge, refuseNoTools, refuseTwins, refuseUnknown } from '../turn/tools.ts';

/** What is wrong between the members. */
export function toolViolations({ tools, tool_choice: choice }: ToolBody): Violation[] {
  const defined = (tools ?? []).map((one) => one.function);
  const wrong: Violation[] = [];
  refuseLarge(defined, wrong);
  refuseTwins(defined, wrong, (index) => `tools.${index}.function.name`);
  if (choice === 'required') refuseNoTools('tool_choice', defined, wrong);
  for (const asked of askedFor(choice)) refuseUnknown('tool_choice', asked, defined, wrong);
  return wrong;
}

/** Tools and choice as a conversation takes them. */
export function toTools(body: ToolBody): {
  tools?: ToolDefinition[];
  toolChoice?: ToolChoice;
  parallelToolCalls?: boolean;
} {
  if (!body.tools || body.tools.length === 0) return {};
  const { tool_choice: choice, parallel_tool_calls: parallel } = body;
  return {
    tools: offered(body.tools, choice).map((one) => toTool(one.function)),
    toolChoice: toolChoiceOf(choice) ?? 'auto',
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
