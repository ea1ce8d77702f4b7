import { z } from 'zod';
import type { Violation } from '../../http/error.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import {
  refuseLargeTools,
  refuseNoTools,
  refuseDuplicateNames,
  refuseUnknownTool,
} from '../core/tool-checks.ts';
import { flag, text, toolList, toolName, typeOf } from '../core/members.ts';

const notAFunctionError = (type: string) =>
  `tools of type '${type.slice(0, 40)}' cannot be called by this model; describe them as functions`;
const functionType = z.literal('function', {
  error: ({ input }) => (typeof input === 'string' ? notAFunctionError(input) : "expected 'function'"),
});

const toolError = "expected a tool such as {type: 'function', function: {name, description, parameters}}";
/**
 * Schema of a tool, discriminated by type: other members are checked for functions only.
 * @param extraMembers members beside the function
 */
const toolSchema = <Name extends z.ZodType, More extends z.ZodRawShape>(name: Name, extraMembers: More) =>
  z.discriminatedUnion(
    'type',
    [
      z.object({
        type: z.literal('function'),
        function: z.object(
          {
            name,
            description: text.nullish(),
            parameters: jsonObject('expected a JSON schema of an object')
              .nullish()
              .describe('JSON schema of the arguments. Default: none.'),
            strict: flag
              .nullish()
              .describe('Arguments match the schema exactly; a schema that cannot be enforced is refused.'),
          },
          { error: toolError },
        ),
        ...extraMembers,
      }),
    ],
    { error: ({ input }) => (typeOf(input) === '' ? toolError : notAFunctionError(typeOf(input))) },
  );

const namedFunction = z.object(
  { type: functionType, function: z.object({ name: text }, { error: 'expected {name}' }) },
  { error: 'expected {type, function}' },
);

const allowedToolsChoice = z.object({
  type: z.literal('allowed_tools'),
  allowed_tools: z.object(
    {
      mode: z.enum(['auto', 'required'], { error: "expected 'auto' or 'required'" }),
      tools: toolList(namedFunction),
    },
    { error: 'expected {mode, tools}' },
  ),
});

const choiceError = "expected 'none', 'auto', 'required' or {type: 'function', function: {name}}";
const modes = ['none', 'auto', 'required'] as const;
const mode = z
  .string({ error: choiceError })
  .pipe(z.enum(modes, { error: choiceError }))
  .meta({ enum: [...modes] });

export const createToolMembers = <Name extends z.ZodType, More extends z.ZodRawShape>(
  name: Name,
  extraMembers: More,
) => ({
  tools: toolList(toolSchema(name, extraMembers)).nullish().describe('Functions that the model may call.'),
  tool_choice: z
    .union([mode, namedFunction, allowedToolsChoice], { error: choiceError })
    .nullish()
    .describe('Whether the model may, must or must not call a function, and which. Default `auto`.'),
  parallel_tool_calls: flag.nullish().describe('Allow several calls in one answer. Default true.'),
});
export const toolMembers = createToolMembers(toolName, {});
export type ToolBody = z.infer<z.ZodObject<typeof toolMembers>>;

/** Names of the tools in a tool choice. */
function chosenToolNames(choice: ToolBody['tool_choice']): string[] {
  if (typeof choice !== 'object' || choice === null) return [];
  if (choice.type === 'function') return [choice.function.name];
  return choice.allowed_tools.tools.map((one) => one.function.name);
}

/** Returns the violations between tools and tool choice. */
export function findToolViolations({ tools, tool_choice: choice }: ToolBody): Violation[] {
  const defined = (tools ?? []).map((one) => one.function);
  const violations: Violation[] = [];
  refuseLargeTools(defined, violations);
  refuseDuplicateNames(defined, violations, (index) => `tools.${index}.function.name`);
  if (choice === 'required') refuseNoTools('tool_choice', defined, violations);
  for (const chosen of chosenToolNames(choice)) refuseUnknownTool('tool_choice', chosen, defined, violations);
  return violations;
}

export function toToolChoice(choice: ToolBody['tool_choice']) {
  if (choice === null || choice === undefined) return undefined;
  if (typeof choice === 'string') return choice;
  return choice.type === 'function' ? { name: choice.function.name } : choice.allowed_tools.mode;
}

/** The tools to offer to the model: `allowed_tools` restricts them. */
export function allowedTools<Tool extends { readonly function: { readonly name: string } }>(
  tools: readonly Tool[],
  choice: ToolBody['tool_choice'],
): readonly Tool[] {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return tools;
  const names = new Set(chosenToolNames(choice));
  return tools.filter((tool) => names.has(tool.function.name));
}
