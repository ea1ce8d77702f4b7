import type { BoundTool } from './styles/index.ts';
import type { ToolChoice, ToolDefinition } from './types.ts';

/** The tools that the grammar lets the model call. */
export function boundTools(tools: readonly ToolDefinition[], choice: ToolChoice): BoundTool[] {
  const wanted = typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
  return wanted.map(({ name, parameters, strict = false }) => ({
    name,
    strict,
    schema: parameters && !namesNone(parameters) ? parameters : noParameters,
  }));
}

const noParameters = { type: 'object', properties: {}, additionalProperties: false };
/** Members that bind nothing where no property is named. */
const idle = new Set(['type', 'properties', 'required', 'title', 'description', '$schema', 'strict']);

/**
 * Whether a tool takes no arguments, as most clients write it: an object whose properties are none. To the letter that
 * schema allows any, and a bound model would invent some.
 */
const namesNone = ({
  type = 'object',
  properties = {},
  ...rest
}: Readonly<Record<string, unknown>>): boolean =>
  type === 'object' &&
  typeof properties === 'object' &&
  Object.keys(properties ?? {}).length === 0 &&
  Object.keys(rest).every((key) => idle.has(key));
