import { z } from 'zod';
import type { Violation } from '../../http/error.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import { flag, maxTools, refusedMember, text, toolList, toolName, typeOf } from '../core/members.ts';
import { mcpTool } from './mcp-schema.ts';
import { refuseNoTools, refuseUnknownTool } from '../core/tool-checks.ts';

const functionShape = z.object({
  type: z.literal('function'),
  function: refusedMember('put name, description and parameters beside type'),
  name: toolName,
  description: text.nullish(),
  parameters: jsonObject('expected a JSON schema of an object')
    .nullish()
    .describe('JSON schema of the arguments. Default: none.'),
  strict: flag
    .nullish()
    .describe('Arguments match the schema exactly; a schema that cannot be enforced is refused.'),
});
const unknownToolError = ({ input }: { readonly input?: unknown }): string => {
  const type = typeOf(input);
  return type === ''
    ? "expected a tool such as {type: 'function', name, parameters}"
    : `tools of type '${type}' do not run on this host; define a function and run it yourself`;
};
const formatError =
  "expected {type: 'text'} or {type: 'grammar', syntax: 'lark' or 'regex', definition: '...'}";
const customShape = z.object({
  type: z.literal('custom'),
  custom: refusedMember('put name, description and format beside type'),
  name: toolName,
  description: text.nullish(),
  format: z
    .discriminatedUnion(
      'type',
      [
        z.object({ type: z.literal('text') }),
        z.object({
          type: z.literal('grammar'),
          syntax: z.enum(['lark', 'regex'], { error: 'expected lark or regex' }),
          definition: text,
        }),
      ],
      { error: formatError },
    )
    .nullish()
    .describe('What the input may be. Default: any text. Lark grammars must not be recursive.'),
});
/** A tool of the caller whose input is a text instead of JSON. */
export type CustomTool = z.infer<typeof customShape>;
/** A function that the caller runs. */
export const functionTool = z.discriminatedUnion('type', [functionShape], { error: unknownToolError });
const tool = z.discriminatedUnion('type', [functionShape, customShape, mcpTool], { error: unknownToolError });

const choiceError =
  "expected 'none', 'auto', 'required', {type: 'function', name}, {type: 'custom', name} or {type: 'allowed_tools', mode, tools}";
export const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required'], { error: choiceError }),
    z.discriminatedUnion(
      'type',
      [
        z.object({ type: z.literal(['function', 'custom']), name: toolName }),
        z.object({
          type: z.literal('allowed_tools'),
          mode: z.enum(['auto', 'required'], { error: "expected 'auto' or 'required'" }),
          tools: list(
            z.object({
              type: z.literal(['function', 'custom'], { error: "expected 'function' or 'custom'" }),
              name: toolName,
            }),
            {
              error: 'expected an array of {type, name}',
              empty: 'must name at least one tool',
              max: maxTools,
            },
          ),
        }),
      ],
      { error: choiceError },
    ),
  ],
  { error: choiceError },
);
type ToolChoice = z.infer<typeof toolChoice>;

/** Selects the tools to offer to the model: `allowed_tools` hides the others. */
export function selectTools<Tool extends { readonly name: string }>(
  tools: readonly Tool[],
  choice: ToolChoice,
  violations: Violation[],
) {
  if (choice === 'required') refuseNoTools('tool_choice', tools, violations);
  if (typeof choice === 'string') return { tools, toolChoice: choice };
  if (choice.type !== 'allowed_tools') {
    refuseUnknownTool('tool_choice.name', choice.name, tools, violations);
    return { tools, toolChoice: { name: choice.name } };
  }
  for (const [index, { name }] of choice.tools.entries())
    refuseUnknownTool(`tool_choice.tools.${index}.name`, name, tools, violations);
  const names = new Set(choice.tools.map(({ name }) => name));
  return { tools: tools.filter(({ name }) => names.has(name)), toolChoice: choice.mode };
}

export const toolMembers = {
  tools: toolList(tool)
    .nullish()
    .describe(
      'Functions and custom tools that the model may call, and MCP servers of the host whose tools it may call: the host runs those.',
    ),
  tool_choice: toolChoice
    .nullish()
    .describe('Whether the model may, must or must not call a function, and which. Default `auto`.'),
  parallel_tool_calls: flag.nullish().describe('Allow several calls in one answer. Default true.'),
  max_tool_calls: z
    .int({ error: 'expected a whole number' })
    .nullish()
    .describe('Maximum calls of MCP tools. Default 64.'),
};
