import { isRecord } from '../../util/json.ts';
import type { Tool } from '../tool.ts';
import { schemaValidator } from './schema-validator.ts';

/** Maximum nesting of arguments. */
const maxNested = 100;

export type ToolArguments = Readonly<Record<string, unknown>>;

/** Parses the arguments of a call. Returns the text itself when it is not JSON or nested too deeply. */
export function parseArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return isTooDeep(value) ? text : value;
  } catch {
    return text;
  }
}

/** Error message for the model; undefined when the arguments fit the schema. */
export function describeArgumentErrors({ name, inputSchema }: Tool, value: unknown): string | undefined {
  if (typeof value === 'string')
    return `The arguments of ${name} must be one JSON object; what came is no JSON.`;
  if (!isRecord(value)) return `The arguments of ${name} must be a JSON object.`;
  const violations = schemaValidator(inputSchema)(value);
  if (violations.length === 0) return undefined;
  return [
    `The arguments of ${name} do not fit; nothing was done:`,
    ...violations.map((one) => `- ${one}`),
  ].join('\n');
}

/** Iterative, because deep nesting would exhaust the stack. */
function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxNested) return true;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  }
  return false;
}
