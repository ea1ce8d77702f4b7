import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { cleanText } from './clean-text.ts';
import { computePin } from './pin.ts';

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

const maxNameLength = 256;
const maxDescriptionLength = 4096;
const maxSchemaLength = 65_536;

const rawTool = z.looseObject({ name: z.string().min(1).max(maxNameLength) });
const objectSchema = z.looseObject({ type: z.literal('object') });

/** Validates a tool of a server's list; returns the problem when it cannot be used. */
export function parseListedTool(
  raw: unknown,
): ListedTool | { readonly name: string; readonly problem: string } {
  const parsedName = rawTool.safeParse(raw);
  if (!parsedName.success) return { name: '', problem: `it has no name of 1 to ${maxNameLength} characters` };
  const { name, description, inputSchema, annotations } = parsedName.data;
  const schema = objectSchema.safeParse(inputSchema);
  if (!schema.success)
    return { name, problem: 'its input schema is not one of an object ("type": "object")' };
  if (JSON.stringify(inputSchema).length > maxSchemaLength)
    return { name, problem: `its input schema is longer than ${maxSchemaLength} characters` };
  try {
    const pin = computePin({ name, description, inputSchema, annotations });
    return {
      name,
      description: typeof description === 'string' ? cleanText(description, maxDescriptionLength) : '',
      inputSchema: cleanSchema(schema.data) as Schema,
      hints: parseHints(annotations),
      pin,
    };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return { name, problem: `it cannot be hashed: ${error.message}` };
  }
}

/** Defaults of the protocol: without annotations a tool is destructive. */
function parseHints(annotations: unknown): ListedTool['hints'] {
  const { readOnlyHint, destructiveHint } = (
    typeof annotations === 'object' && annotations !== null ? annotations : {}
  ) as Schema;
  return { readOnly: readOnlyHint === true, destructive: destructiveHint !== false };
}

/** Keywords whose members are values, not schemas; they are not changed. */
const valueKeywords = new Set(['const', 'enum', 'default', 'examples', 'required', 'pattern']);
/** Keywords whose members are named schemas. */
const schemaMapKeywords = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);

/** Cleans the titles and descriptions of a schema. Its depth was limited when it was hashed. */
function cleanSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(cleanSchema);
  return mapMembers(schema, (key, member) => {
    if (valueKeywords.has(key)) return member;
    if (schemaMapKeywords.has(key)) return mapMembers(member, (_, part) => cleanSchema(part));
    const isText = (key === 'description' || key === 'title') && typeof member === 'string';
    return isText ? cleanText(member, maxDescriptionLength) : cleanSchema(member);
  });
}

function mapMembers(value: unknown, map: (key: string, member: unknown) => unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, map(key, member)]));
}
