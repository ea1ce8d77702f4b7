import { isRecord, type Json } from '../../util/json.ts';
import type { Effort } from '../core/types.ts';
import type { AnswerFormat, Conversation, Reasoning, Tool } from '../core/conversation.ts';
import { efforts } from '../core/effort.ts';
import { kindOf } from '../core/json.ts';
import { type Violations } from '../core/violations.ts';

type ToolChoice = Conversation['toolChoice'];

const hosted = 'only models of OpenAI itself can use it; send tools of type function and run them yourself';

/** The tools that may be called: `allowed_tools` leaves the others out. */
export function toolsOf(
  body: Json,
  faults: Violations,
): { readonly tools: readonly Tool[]; readonly toolChoice: ToolChoice } {
  const tools = faults
    .list(body['tools'], 'tools')
    .map((tool, index) => toolOf(tool, `tools.${index}`, faults))
    .filter((tool) => tool !== undefined);
  const choice = body['tool_choice'] ?? undefined;
  if (choice === undefined) return { tools, toolChoice: undefined };
  if (choice === 'auto' || choice === 'none' || choice === 'required') return { tools, toolChoice: choice };
  const unknown = "expected 'auto', 'none', 'required' or an object such as {type: 'function', name: '...'}";
  if (!isRecord(choice)) {
    faults.add(
      'tool_choice',
      `${unknown}, got ${typeof choice === 'string' ? `'${choice}'` : kindOf(choice)}`,
    );
    return { tools, toolChoice: undefined };
  }
  const { type } = choice;
  if (type === 'function') {
    const name = faults.name(choice['name'], 'tool_choice.name');
    refuseUnknown(name, 'tool_choice.name', tools, faults);
    return { tools, toolChoice: { name } };
  }
  if (type === 'allowed_tools') return allowedTools(choice, tools, faults);
  if (typeof type === 'string') faults.refuse('tool_choice.type', `'${type}': ${hosted}`);
  else faults.add('tool_choice', unknown);
  return { tools, toolChoice: undefined };
}

function allowedTools(choice: Json, tools: readonly Tool[], faults: Violations): ReturnType<typeof toolsOf> {
  const { mode } = choice;
  const allowed = new Set<string>();
  for (const [index, each] of faults.list(choice['tools'], 'tool_choice.tools').entries()) {
    const path = `tool_choice.tools.${index}.name`;
    const name = faults.name(isRecord(each) ? each['name'] : undefined, path);
    refuseUnknown(name, path, tools, faults);
    allowed.add(name);
  }
  const toolChoice = mode === 'auto' || mode === 'required' ? mode : undefined;
  if (!toolChoice) faults.add('tool_choice.mode', "expected 'auto' or 'required'");
  return { tools: tools.filter(({ name }) => allowed.has(name)), toolChoice };
}

function refuseUnknown(name: string, path: string, tools: readonly Tool[], faults: Violations): void {
  if (name === '' || tools.some((tool) => tool.name === name)) return;
  faults.add(path, `there is no tool '${name}' among tools`);
}

function toolOf(tool: unknown, path: string, faults: Violations): Tool | undefined {
  if (!isRecord(tool)) {
    faults.add(path, `expected a tool such as {type: 'function', name: '...'}, got ${kindOf(tool)}`);
    return undefined;
  }
  const { type, description, strict } = tool;
  if (type !== 'function') {
    if (typeof type === 'string') faults.refuse(`${path}.type`, `'${type}': ${hosted}`);
    else faults.add(`${path}.type`, `expected 'function', got ${kindOf(type)}`);
    return undefined;
  }
  if (tool['name'] === undefined && isRecord(tool['function'])) {
    faults.add(path, 'on this wire name, description and parameters stand beside type, not within function');
    return undefined;
  }
  const name = faults.name(tool['name'], `${path}.name`);
  const parameters = faults.record(tool['parameters'], `${path}.parameters`);
  const isStrict = faults.flag(strict, `${path}.strict`);
  return {
    name,
    ...(typeof description === 'string' ? { description } : {}),
    parameters: parameters ?? { type: 'object', properties: {} },
    ...(isStrict === undefined ? {} : { strict: isStrict }),
  };
}

export function formatOf(body: Json, faults: Violations): AnswerFormat {
  const format = faults.record(faults.record(body['text'], 'text')?.['format'], 'text.format');
  if (!format || format['type'] === 'text') return { type: 'text' };
  if (format['type'] === 'json_object') return { type: 'json' };
  if (format['type'] !== 'json_schema') {
    faults.add('text.format.type', "expected 'text', 'json_object' or 'json_schema'");
    return { type: 'text' };
  }
  const schema = faults.record(format['schema'], 'text.format.schema');
  if (!schema) faults.add('text.format.schema', 'expected a JSON Schema');
  const strict = faults.flag(format['strict'], 'text.format.strict');
  return {
    type: 'schema',
    name: faults.name(format['name'], 'text.format.name'),
    schema: schema ?? {},
    ...(typeof format['description'] === 'string' ? { description: format['description'] } : {}),
    ...(strict === undefined ? {} : { strict }),
  };
}

/** `reasoning`, or `reasoning_effort` as on the chat wire. Summaries come in any case. */
export function reasoningOf(body: Json, faults: Violations): Reasoning | undefined {
  const reasoning = faults.record(body['reasoning'], 'reasoning');
  const own = effortOf(reasoning?.['effort'], 'reasoning.effort', faults);
  const beside = effortOf(body['reasoning_effort'], 'reasoning_effort', faults);
  const bounds = { least: 0, whole: true } as const;
  const maxTokens = faults.number(reasoning?.['max_tokens'], 'reasoning.max_tokens', bounds);
  const effort = own ?? beside;
  if (effort === undefined && maxTokens === undefined) return undefined;
  return {
    ...(effort === undefined ? {} : { effort }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
  };
}

function effortOf(value: unknown, path: string, faults: Violations): Effort | undefined {
  if (value === undefined || value === null) return undefined;
  const effort = efforts.find((each) => each === value);
  if (effort === undefined) faults.add(path, `expected one of ${efforts.join(', ')}`);
  return effort;
}
