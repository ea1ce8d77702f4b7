import type { ToolDefinition } from '../../chat/index.ts';
import { larkToRegex } from '../../grammar/lark/to-regex.ts';
import { translateToXGrammar } from '../../grammar/translate.ts';
import { GrammarError } from '../../grammar/types.ts';
import type { Violation } from '../../http/error.ts';
import { customInputMember } from '../../wires/responses/custom-input.ts';
import type { CustomTool } from '../../wires/responses/tools-schema.ts';

/**
 * A custom tool as the model sees it: a function with one text. The grammar of the tool becomes the pattern of the text.
 * @param path of the tool in the request
 */
export function toCustomTool(tool: CustomTool, path: string, violations: Violation[]): ToolDefinition {
  const { name, description } = tool;
  return {
    name,
    ...(description ? { description } : {}),
    parameters: {
      type: 'object',
      properties: { [customInputMember]: toTextSchema(tool, path, violations) },
      required: [customInputMember],
      additionalProperties: false,
    },
    strict: true,
  };
}

function toTextSchema({ format }: CustomTool, path: string, violations: Violation[]) {
  const schema = { type: 'string' };
  if (format?.type !== 'grammar') return schema;
  const { syntax, definition } = format;
  try {
    const pattern = `^(?:${syntax === 'lark' ? larkToRegex(definition) : definition})$`;
    const bound = { ...schema, pattern, description: `A text that matches this ${syntax}: ${definition}` };
    translateToXGrammar({ kind: 'json_schema', schema: bound }, { allowLengthMarks: true });
    return bound;
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    violations.push({ path: `${path}.format.definition`, message: error.message });
    return schema;
  }
}
