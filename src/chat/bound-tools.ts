import { GrammarError } from '../grammar/types.ts';
import { translate } from '../grammar/translate.ts';
import type { BoundTool } from './styles/index.ts';
import type { ToolChoice, ToolDefinition } from './types.ts';

const anyObject = { type: 'object' };
/** Characters of a schema that is worth a look before it is compiled. */
const mostLooked = 2 ** 16;

/**
 * The tools that the grammar lets the model call, with the schemas that it is to keep: a tool's own, or where that
 * cannot be kept and is not strict, any object. A strict one is refused when it is compiled.
 */
export function boundTools(tools: readonly ToolDefinition[], choice: ToolChoice): BoundTool[] {
  const wanted = typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
  return wanted.map(({ name, parameters, strict = false }) => {
    const schema = parameters ?? { type: 'object', properties: {}, additionalProperties: false };
    return { name, strict, schema: strict || canBeKept(schema) ? schema : anyObject };
  });
}

/** By the schema's JSON, the latest ones. */
const known = new Map<string, boolean>();

function canBeKept(schema: Readonly<Record<string, unknown>>): boolean {
  const text = JSON.stringify(schema);
  if (text.length > mostLooked) return false;
  const before = known.get(text);
  if (before !== undefined) return before;
  const kept = isTranslatable(schema);
  const [oldest] = known.keys();
  if (known.size >= 256 && oldest !== undefined) known.delete(oldest);
  known.set(text, kept);
  return kept;
}

function isTranslatable(schema: unknown): boolean {
  try {
    translate({ kind: 'json_schema', schema });
    return true;
  } catch (error) {
    if (error instanceof GrammarError) return false;
    throw error;
  }
}
