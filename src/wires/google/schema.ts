import { isRecord, type Json } from '../../util/json.ts';

/**
 * Keywords that Google supports in `responseJsonSchema` and `parametersJsonSchema`; other keywords may make it refuse
 * the schema.
 */
const copiedKeywords = new Set([
  '$id',
  '$anchor',
  'type',
  'format',
  'title',
  'description',
  'enum',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'required',
  'propertyOrdering',
]);
const schemaKeywords = new Set(['items', 'additionalProperties']);
const schemaListKeywords = new Set(['prefixItems', 'anyOf', 'oneOf']);
const schemaMapKeywords = new Map([
  ['properties', 'properties'],
  ['$defs', '$defs'],
  ['definitions', '$defs'],
]);

/**
 * Reduces a JSON Schema to what Google supports: unsupported keywords are rewritten where possible (`const`, `allOf`,
 * `definitions`) and dropped otherwise, so the answer matches a wider schema at worst.
 */
export function reduceSchema(schema: unknown): unknown {
  if (typeof schema === 'boolean') return schema;
  if (!isRecord(schema)) return {};
  const merged = mergeAllOf(schema);
  const { $ref } = merged;
  if (typeof $ref !== 'string') return reduceMembers(merged);
  // Only definitions may be next to a reference.
  const definitions = reduceMembers(pick(merged, ['$defs', 'definitions']));
  return { $ref: $ref.replace(/^#\/definitions\//, '#/$defs/'), ...definitions };
}

function reduceMembers(schema: Json): Json {
  const reduced: Record<string, unknown> = {};
  const { const: constValue, nullable } = schema;
  for (const [keyword, value] of Object.entries(schema)) {
    const targetKeyword = schemaMapKeywords.get(keyword);
    if (copiedKeywords.has(keyword)) reduced[keyword] = value;
    else if (schemaKeywords.has(keyword)) reduced[keyword] = Array.isArray(value) ? {} : reduceSchema(value);
    else if (schemaListKeywords.has(keyword) && Array.isArray(value))
      reduced[keyword] = value.map(reduceSchema);
    else if (targetKeyword !== undefined && isRecord(value)) {
      const members = Object.entries(value).map(
        ([name, memberSchema]) => [name, reduceSchema(memberSchema)] as const,
      );
      reduced[targetKeyword] = {
        ...(reduced[targetKeyword] as Json | undefined),
        ...Object.fromEntries(members),
      };
    }
  }
  if (constValue !== undefined) reduced['enum'] = [constValue];
  if (nullable === true && typeof reduced['type'] === 'string') reduced['type'] = [reduced['type'], 'null'];
  return reduced;
}

/**
 * Merges the members of `allOf` into the schema: `properties` and `required` are joined, for other keywords the first
 * value is used.
 */
function mergeAllOf(schema: Json): Json {
  const { allOf, ...rest } = schema;
  if (!Array.isArray(allOf)) return schema;
  let merged: Json = rest;
  for (const part of allOf as unknown[]) {
    if (!isRecord(part)) continue;
    const other = mergeAllOf(part);
    merged = {
      ...other,
      ...merged,
      ...joinKeyword(merged, other, 'properties', (a: Json, b: Json) => ({ ...b, ...a })),
      ...joinKeyword(merged, other, '$defs', (a: Json, b: Json) => ({ ...b, ...a })),
      ...joinKeyword(merged, other, 'required', (a: readonly string[], b: readonly string[]) => [
        ...new Set([...a, ...b]),
      ]),
    };
  }
  return merged;
}

function joinKeyword<T>(a: Json, b: Json, keyword: string, join: (a: T, b: T) => T): Json {
  const [first, second] = [a[keyword], b[keyword]];
  return first !== undefined && second !== undefined ? { [keyword]: join(first as T, second as T) } : {};
}

const pick = (schema: Json, keys: readonly string[]): Json =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => keys.includes(key)));
