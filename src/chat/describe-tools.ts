import { toSpacedJson } from './json-text.ts';
import type { ToolCallFormat } from './tool-call-formats/index.ts';
import type { ToolDefinition } from './types.ts';

/** Describes tools in a system message, for models whose template does not render them. */
export function describeTools(tools: readonly ToolDefinition[], toolCallFormat: ToolCallFormat): string {
  const lines = tools.map(({ name, description, parameters }) =>
    toSpacedJson({ name, description, parameters: parameters ?? { type: 'object', properties: {} } }),
  );
  const example = toolCallFormat.serialize?.([
    { id: '', name: 'function_name', arguments: '{"argument_name": "value"}' },
  ]);
  return [
    '# Tools',
    '',
    'You can call functions to help with the request. These are the functions, one a line, with JSON schemas of their arguments:',
    '<tools>',
    ...lines,
    '</tools>',
    '',
    'To call a function, write its name and its arguments as JSON exactly like this, and then wait for the result:',
    example,
  ].join('\n');
}

/** Writes a tool result as user text, for templates without a tool role. */
export const formatToolResult = (content: string): string => `<tool_response>\n${content}\n</tool_response>`;
