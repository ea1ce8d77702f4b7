import type { Violation } from '../../http/error.ts';
import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerFormat, Conversation, Tool } from '../core/conversation.ts';
import { present } from '../core/json.ts';
import { typeOf } from '../core/members.ts';
import { type Violations } from '../core/violations.ts';
import { chosen, functionTool, toolChoice } from './tools-schema.ts';

const hosted = 'only models of OpenAI itself can use it; send tools of type function and run them yourself';

/** Reads the tools that may be called and the tool choice. */
export function toolsOf(body: Json, faults: Violations): Pick<Conversation, 'tools' | 'toolChoice'> {
  const tools = faults
    .list(body['tools'], 'tools')
    .map((tool, index) => toolOf(tool, `tools.${index}`, faults))
    .filter((tool) => tool !== undefined);
  const { tool_choice: given } = body;
  const type = typeOf(given);
  const isKnown = type === '' || type === 'function' || type === 'allowed_tools';
  if (!isKnown) faults.refuse('tool_choice.type', `'${type}': ${hosted}`);
  const choice = isKnown ? faults.read(toolChoice.nullish(), given, 'tool_choice') : undefined;
  if (!choice) return { tools };
  const wrong: Violation[] = [];
  const asked = chosen(tools, choice, wrong);
  for (const violation of wrong) faults.add(violation.path, violation.message);
  return asked;
}

function toolOf(tool: unknown, path: string, faults: Violations): Tool | undefined {
  const type = typeOf(tool);
  if (type !== '' && type !== 'function') {
    faults.refuse(`${path}.type`, `'${type}': ${hosted}`);
    return undefined;
  }
  if (isRecord(tool) && tool['name'] === undefined && isRecord(tool['function'])) {
    faults.add(
      path,
      'on this wire name, description and parameters are members of the tool, not of function',
    );
    return undefined;
  }
  const read = faults.read(functionTool, tool, path);
  if (!read) return undefined;
  const { name, description, parameters, strict } = read;
  return {
    name,
    ...present({ description, strict }),
    parameters: parameters ?? { type: 'object', properties: {} },
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
    ...present({ strict }),
  };
}
