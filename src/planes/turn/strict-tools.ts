import { translate } from '../../grammar/translate.ts';
import { GrammarError } from '../../grammar/types.ts';
import type { Json } from '../../util/json.ts';

interface StrictTool {
  readonly strict?: boolean | null | undefined;
  readonly schema?: Json | null | undefined;
}

/** Characters of a schema that are worth a second look. */
const mostLooked = 2 ** 16;

/**
 * The member with the schema that cannot be kept, of the strict tools; the others are kept as far as it goes.
 * @param member that a tool has its schema in
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
