import { translateToXGrammar } from '../../grammar/translate.ts';
import { GrammarError } from '../../grammar/types.ts';
import type { Json } from '../../util/json.ts';

interface StrictTool {
  readonly strict?: boolean | null | undefined;
  readonly schema?: Json | null | undefined;
}

/** Longer schemas are not checked. */
const maxCheckedChars = 2 ** 16;

/**
 * Finds the path of the first strict tool whose schema cannot be enforced exactly. Schemas of other tools are enforced
 * as far as possible.
 * @param member the member of a tool that contains its schema
 */
export function findUnenforceableTool(tools: readonly StrictTool[], member: string): string | undefined {
  const index = tools.findIndex(({ strict, schema }) => strict && schema && !canEnforce(schema));
  return index === -1 ? undefined : `tools.${index}.${member}`;
}

function canEnforce(schema: Json): boolean {
  if (JSON.stringify(schema).length > maxCheckedChars) return true;
  try {
    translateToXGrammar({ kind: 'json_schema', schema }, { allowLengthMarks: true });
    return true;
  } catch (error) {
    if (error instanceof GrammarError) return false;
    throw error;
  }
}
