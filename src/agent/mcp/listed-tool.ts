import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { cleanText } from './clean-text.ts';
import { pinOf } from './pin.ts';

type Schema = Readonly<Record<string, unknown>>;

/** A tool from a server's list, with cleaned texts. */
export interface ListedTool {
  /** The server's own name. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Schema;
  /** The server's annotations. They are trusted only for pinned tools. */
  readonly hints: { readonly readOnly: boolean; readonly destructive: boolean };
  readonly pin: string;
}

const longestName = 256;
const longestDescription = 4096;
const longestSchema = 65_536;

const rawTool = z.looseObject({ name: z.string().min(1).max(longestName) });
const objectSchema = z.looseObject({ type: z.literal('object') });

/** Validates a tool of a server's list; returns the problem when it cannot be used. */
export function listedTool(raw: unknown): ListedTool | { readonly name: string; readonly problem: string } {
  const named = rawTool.safeParse(raw);
  if (!named.success) return { name: '', problem: `it has no name of 1 to ${longestName} characters` };
  const { name, description, inputSchema, annotations } = named.data;
  const schema = objectSchema.safeParse(inputSchema);
  if (!schema.success)
    return { name, problem: 'its input schema is not one of an object ("type": "object")' };
  if (JSON.stringify(inputSchema).length > longestSchema)
    return { name, problem: `its input schema is longer than ${longestSchema} characters` };
  try {
    const pin = pinOf({ name, description, inputSchema, annotations });
    return {
      name,
      description: typeof description === 'string' ? cleanText(description, longestDescription) : '',
      inputSchema: cleanSchema(schema.data) as Schema,
      hints: hintsOf(annotations),
      pin,
    };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { name, problem: `it cannot be hashed: ${error.message}` };
  }
}

/** Defaults of the protocol: without annotations a tool is destructive. */
function hintsOf(annotations: unknown): ListedTool['hints'] {
  const { readOnlyHint, destructiveHint } = (
    typeof annotations === 'object' && annotations !== null ? annotations : {}
  ) as Schema;
  return { readOnly: readOnlyHint === true, destructive: destructiveHint !== false };
}

/** Keywords whose members are values, not schemas; they are not changed. */
const values = new Set(['const', 'enum', 'default', 'examples', 'required', 'pattern']);
/** Keywords whose members are named schemas. */
const named = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

/** Cleans the titles and descriptions of a schema. Its depth was limited when it was hashed. */
function cleanSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(cleanSchema);
  return mapMembers(schema, (key, member) => {
    if (values.has(key)) return member;
    if (named.has(key)) return mapMembers(member, (_, part) => cleanSchema(part));
    const words = (key === 'description' || key === 'title') && typeof member === 'string';
    return words ? cleanText(member, longestDescription) : cleanSchema(member);
  });
}

function mapMembers(value: unknown, map: (key: string, member: unknown) => unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, map(key, member)]));
}
