import { translate } from '../../grammar/translate.ts';
import { GrammarError } from '../../grammar/types.ts';
import type { Json } from '../../util/json.ts';

interface StrictTool {
  readonly strict?: boolean | null | undefined;
  readonly schema?: Json | null | undefined;
}

/** Longer schemas are not checked. */
const mostLooked = 2 ** 16;

/**
 * Finds the path of the first strict tool whose schema cannot be enforced exactly. Schemas of other tools are enforced
 * as far as possible.
 * @param member the member of a tool that contains its schema
 */
export function toolAtFault(tools: readonly StrictTool[], member: string): string | undefined {
  const index = tools.findIndex(({ strict, schema }) => strict && schema && !canBeKept(schema));
  return index === -1 ? undefined : `tools.${index}.${member}`;
}

function canBeKept(schema: Json): boolean {
  if (JSON.stringify(schema).length > mostLooked) return true;
  try {
    translate({ kind: 'json_schema', schema }, { counted: true });
    return true;
  } catch (error) {
    if (error instanceof GrammarError) return false;
    throw error;
  }
}
