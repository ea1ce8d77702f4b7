import { z } from 'zod';
import type { ToolChoice, ToolDefinition } from '../../chat/index.ts';
import { translate } from '../../grammar/translate.ts';
import { GrammarError } from '../../grammar/types.ts';
import { exceeds, type JsonObject, jsonObject, type Size } from '../json-object.ts';
import type { Violation } from '../problem.ts';
import { flag, text, toolList, toolName } from '../turn/members.ts';

const functionType = z.literal('function', {
  error: ({ input }) =>
    typeof input === 'string'
      ? `tools of type '${input.slice(0, 40)}' cannot be called by this model; describe them as functions`
      : "expected 'function'",
});

const tool = z.object(
  {
    type: functionType,
    function: z.object(
      {
        name: toolName,
        description: text.nullish(),
        parameters: jsonObject('expected a JSON schema of an object')
          .nullish()
          .describe('JSON schema of the arguments. Default: none.'),
        strict: flag
          .nullish()
          .describe('Arguments fit the schema to the letter; a schema that cannot be kept is refused.'),
      },
      { error: 'expected {name, description, parameters}' },
    ),
  },
  { error: 'expected a tool such as {type, function}' },
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

/** Of all tools together. */
const most: Size = { values: 100_000, characters: 4_000_000 };

const choiceForm = "expected 'none', 'auto', 'required' or {type: 'function', function: {name}}";
const modes = ['none', 'auto', 'required'] as const;
const mode = z
  .string({ error: choiceForm })
  .pipe(z.enum(modes, { error: choiceForm }))
  .meta({ enum: [...modes] });

export const toolMembers = {
  tools: toolList(tool).nullish().describe('Functions that the model may ask you to call.'),
  tool_choice: z
    .union([mode, named, allowed], { error: choiceForm })
    .nullish()
    .describe('Whether it may, must or must not call one, and which. Default `auto`.'),
  parallel_tool_calls: flag.nullish().describe('Several calls in one answer. Default true.'),
};
type ToolBody = z.infer<z.ZodObject<typeof toolMembers>>;

/** What is wrong between the members. */
export function toolViolations({ tools, tool_choice: choice }: ToolBody): Violation[] {
  const names = (tools ?? []).map((one) => one.function.name);
  const wrong: Violation[] = [];
  if (exceeds(tools ?? [], most)) {
    const message = `too large: at most ${most.values} values and ${most.characters} characters together`;
    wrong.push({ path: 'tools', message });
  }
  for (const [index, one] of names.entries()) {
    if (names.indexOf(one) === index) continue;
    wrong.push({ path: `tools.${index}.function.name`, message: `there is another tool named '${one}'` });
  }
  if (choice === 'required' && names.length === 0) {
    wrong.push({ path: 'tool_choice', message: "'required' needs tools to choose from; send `tools`" });
  }
  for (const asked of askedFor(choice)) {
    if (names.includes(asked)) continue;
    const known = names.length === 0 ? 'the request has none' : `there are ${names.slice(0, 8).join(', ')}`;
    wrong.push({ path: 'tool_choice', message: `no tool named '${asked.slice(0, 64)}' (${known})` });
  }
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

/** Characters of a schema that are worth a second look. */
const mostLooked = 2 ** 16;

/** The member with the schema that cannot be kept, of the strict tools; the others are kept as far as it goes. */
export function toolAtFault({ tools }: ToolBody): string | undefined {
  const index = (tools ?? []).findIndex(
    ({ function: { strict, parameters } }) => strict && parameters && !canBeKept(parameters),
  );
  return index === -1 ? undefined : `tools.${index}.function.parameters`;
}

function canBeKept(schema: JsonObject): boolean {
  if (JSON.stringify(schema).length > mostLooked) return true;
  try {
    translate({ kind: 'json_schema', schema });
    return true;
  } catch (error) {
    if (error instanceof GrammarError) return false;
    throw error;
  }
}
