import type { GrammarTool } from './tool-call-formats/index.ts';
import type { ToolChoice, ToolDefinition } from './types.ts';

/** The tools that the grammar allows the model to call. */
export function toGrammarTools(tools: readonly ToolDefinition[], choice: ToolChoice): GrammarTool[] {
  const callableTools = typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
  return callableTools.map(({ name, parameters, strict = false }) => ({
    name,
    strict,
    schema: parameters && !takesNoArguments(parameters) ? parameters : noParameters,
  }));
}

const noParameters = { type: 'object', properties: {}, additionalProperties: false };
/** Schema keywords that do not constrain an object without declared properties. */
const nonConstrainingKeywords = new Set([
  'type',
  'properties',
  'required',
  'title',
  'description',
  '$schema',
  'strict',
]);

/**
 * Whether a tool takes no arguments, in the form that most clients send: an object schema without properties. Strictly,
 * that schema allows any properties, and a constrained model would invent some.
 */
const takesNoArguments = ({
  type = 'object',
  properties = {},
  ...rest
}: Readonly<Record<string, unknown>>): boolean =>
  type === 'object' &&
  typeof properties === 'object' &&
  Object.keys(properties ?? {}).length === 0 &&
  Object.keys(rest).every((key) => nonConstrainingKeywords.has(key));
