import type { BoundTool } from './styles/index.ts';
import type { ToolChoice, ToolDefinition } from './types.ts';

/** The tools that the grammar lets the model call. */
export function boundTools(tools: readonly ToolDefinition[], choice: ToolChoice): BoundTool[] {
  const wanted = typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
  return wanted.map(({ name, parameters, strict = false }) => ({
    name,
    strict,
    schema: parameters ?? { type: 'object', properties: {}, additionalProperties: false },
  }));
}
