import type { ToolChoice, ToolDefinition } from '../../chat/index.ts';
import type { Violation } from '../../http/error.ts';
import type { ToolBody } from '../../wires/chat/tools-schema.ts';
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

function askedFor(choice: ToolBody['tool_choice']): string[] {
  if (typeof choice !== 'object' || choice === null) return [];
  if (choice.type === 'function') return [choice.function.name];
  return choice.allowed_tools.tools.map((one) => one.function.name);
}

/** Tools and choice as a conversation takes them. */
export function toTools(body: ToolBody): {
  tools?: ToolDefinition[];
  toolChoice?: ToolChoice;
  parallelToolCalls?: boolean;
} {
  if (!body.tools || body.tools.length === 0) return {};
  const { tool_choice: choice, parallel_tool_calls: parallel } = body;
  const chosen = new Set(askedFor(choice));
  const only = typeof choice === 'object' && choice?.type === 'allowed_tools';
  const tools = body.tools
    .filter((one) => !only || chosen.has(one.function.name))
    .map(({ function: { name: called, description, parameters, strict } }) => ({
      name: called,
      ...(description ? { description } : {}),
      ...(parameters ? { parameters } : {}),
      ...(strict ? { strict } : {}),
    }));
  return {
    tools,
    toolChoice: toToolChoice(choice),
    ...(typeof parallel === 'boolean' ? { parallelToolCalls: parallel } : {}),
  };
}

function toToolChoice(choice: ToolBody['tool_choice']): ToolChoice {
  if (choice === null || choice === undefined) return 'auto';
  if (typeof choice === 'string') return choice;
  return choice.type === 'function' ? { name: choice.function.name } : choice.allowed_tools.mode;
}
