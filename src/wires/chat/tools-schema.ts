import { z } from 'zod';
import type { Violation } from '../../http/error.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { refuseLarge, refuseNoTools, refuseTwins, refuseUnknown } from '../core/tool-checks.ts';
import { flag, text, toolList, toolName, typeOf } from '../core/members.ts';

const notAFunction = (type: string) =>
  `tools of type '${type.slice(0, 40)}' cannot be called by this model; describe them as functions`;
const functionType = z.literal('function', {
  error: ({ input }) => (typeof input === 'string' ? notAFunction(input) : "expected 'function'"),
});

const toolForm = "expected a tool such as {type: 'function', function: {name, description, parameters}}";
/**
 * Schema of a tool, discriminated by type: other members are checked for functions only.
 * @param extraMembers members beside the function
 */
const toolOf = <Name extends z.ZodType, More extends z.ZodRawShape>(name: Name, more: More) =>
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
          { error: toolForm },
        ),
        ...more,
      }),
    ],
    { error: ({ input }) => (typeOf(input) === '' ? toolForm : notAFunction(typeOf(input))) },
  );

const named = z.object(
  { type: functionType, function: z.object({ name: text }, { error: 'expected {name}' }) },
  { error: 'expected {type, function}' },
);

const allowed = z.object({
  type: z.literal('allowed_tools'),
  allowed_tools: z.object(
    {
      mode: z.enum(['auto', 'required'], { error: "expected 'auto' or 'required'" }),
      tools: toolList(named),
    },
    { error: 'expected {mode, tools}' },
  ),
});

const choiceForm = "expected 'none', 'auto', 'required' or {type: 'function', function: {name}}";
const modes = ['none', 'auto', 'required'] as const;
const mode = z
  .string({ error: choiceForm })
  .pipe(z.enum(modes, { error: choiceForm }))
  .meta({ enum: [...modes] });

export const toolMembersOf = <Name extends z.ZodType, More extends z.ZodRawShape>(
  name: Name,
  more: More,
) => ({
  tools: toolList(toolOf(name, more)).nullish().describe('Functions that the model may call.'),
  tool_choice: z
    .union([mode, named, allowed], { error: choiceForm })
    .nullish()
    .describe('Whether the model may, must or must not call a function, and which. Default `auto`.'),
  parallel_tool_calls: flag.nullish().describe('Allow several calls in one answer. Default true.'),
});
export const toolMembers = toolMembersOf(toolName, {});
export type ToolBody = z.infer<z.ZodObject<typeof toolMembers>>;

/** Names of the tools in a tool choice. */
function askedFor(choice: ToolBody['tool_choice']): string[] {
  if (typeof choice !== 'object' || choice === null) return [];
  if (choice.type === 'function') return [choice.function.name];
  return choice.allowed_tools.tools.map((one) => one.function.name);
}

/** Returns the violations between tools and tool choice. */
export function toolViolations({ tools, tool_choice: choice }: ToolBody): Violation[] {
  const defined = (tools ?? []).map((one) => one.function);
  const wrong: Violation[] = [];
  refuseLarge(defined, wrong);
  refuseTwins(defined, wrong, (index) => `tools.${index}.function.name`);
  if (choice === 'required') refuseNoTools('tool_choice', defined, wrong);
  for (const asked of askedFor(choice)) refuseUnknown('tool_choice', asked, defined, wrong);
  return wrong;
}

export function toolChoiceOf(choice: ToolBody['tool_choice']) {
  if (choice === null || choice === undefined) return undefined;
  if (typeof choice === 'string') return choice;
  return choice.type === 'function' ? { name: choice.function.name } : choice.allowed_tools.mode;
}

/** The tools to offer to the model: `allowed_tools` restricts them. */
export function offered<Tool extends { readonly function: { readonly name: string } }>(
  tools: readonly Tool[],
  choice: ToolBody['tool_choice'],
): readonly Tool[] {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return tools;
  const names = new Set(askedFor(choice));
  return tools.filter((tool) => names.has(tool.function.name));
}
