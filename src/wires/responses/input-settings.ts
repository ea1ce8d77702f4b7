import type { Violation } from '../../http/error.ts';
import { isRecord, type Json } from '../../util/json.ts';
import type { AnswerFormat, Conversation, Tool } from '../core/conversation.ts';
import { omitNullish } from '../core/json.ts';
import { typeOf } from '../core/members.ts';
import { type Violations } from '../core/violations.ts';
import { selectTools, functionTool, toolChoice } from './tools-schema.ts';

const hostedToolReason =
  'only models of OpenAI itself can use it; send tools of type function and run them yourself';

/** Reads the tools that may be called and the tool choice. */
export function readTools(body: Json, violations: Violations): Pick<Conversation, 'tools' | 'toolChoice'> {
  const tools = violations
    .list(body['tools'], 'tools')
    .map((tool, index) => readTool(tool, `tools.${index}`, violations))
    .filter((tool) => tool !== undefined);
  const { tool_choice: rawChoice } = body;
  const type = typeOf(rawChoice);
  const isKnown = type === '' || type === 'function' || type === 'allowed_tools';
  if (!isKnown) violations.addUnsupported('tool_choice.type', `'${type}': ${hostedToolReason}`);
  const choice = isKnown ? violations.parse(toolChoice.nullish(), rawChoice, 'tool_choice') : undefined;
  if (!choice) return { tools };
  const choiceViolations: Violation[] = [];
  const selected = selectTools(tools, choice, choiceViolations);
  for (const violation of choiceViolations) violations.add(violation.path, violation.message);
  return selected;
}

function readTool(tool: unknown, path: string, violations: Violations): Tool | undefined {
  const type = typeOf(tool);
  if (type !== '' && type !== 'function') {
    violations.addUnsupported(`${path}.type`, `'${type}': ${hostedToolReason}`);
    return undefined;
  }
  if (isRecord(tool) && tool['name'] === undefined && isRecord(tool['function'])) {
    violations.add(
      path,
      'on this wire name, description and parameters are members of the tool, not of function',
    );
    return undefined;
  }
  const parsedTool = violations.parse(functionTool, tool, path);
  if (!parsedTool) return undefined;
  const { name, description, parameters, strict } = parsedTool;
  return {
    name,
    ...omitNullish({ description, strict }),
    parameters: parameters ?? { type: 'object', properties: {} },
  };
}

export function readFormat(body: Json, violations: Violations): AnswerFormat {
  const format = violations.record(violations.record(body['text'], 'text')?.['format'], 'text.format');
  if (!format || format['type'] === 'text') return { type: 'text' };
  if (format['type'] === 'json_object') return { type: 'json' };
  if (format['type'] !== 'json_schema') {
    violations.add('text.format.type', "expected 'text', 'json_object' or 'json_schema'");
    return { type: 'text' };
  }
  const schema = violations.record(format['schema'], 'text.format.schema');
  if (!schema) violations.add('text.format.schema', 'expected a JSON Schema');
  const strict = violations.flag(format['strict'], 'text.format.strict');
  return {
    type: 'schema',
    name: violations.name(format['name'], 'text.format.name'),
    schema: schema ?? {},
    ...(typeof format['description'] === 'string' ? { description: format['description'] } : {}),
    ...omitNullish({ strict }),
  };
}
