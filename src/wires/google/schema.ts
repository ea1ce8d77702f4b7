import { isRecord, type Json } from '../../util/json.ts';

/**
 * Keywords that Google supports in `responseJsonSchema` and `parametersJsonSchema`; other keywords may make it refuse
 * the schema.
 */
const plain = new Set([
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
const ofOne = new Set(['items', 'additionalProperties']);
const ofMany = new Set(['prefixItems', 'anyOf', 'oneOf']);
const named = new Map([
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
  const whole = merged(schema);
  const { $ref } = whole;
  if (typeof $ref !== 'string') return reduceMembers(whole);
  // Only definitions may be next to a reference.
  const definitions = reduceMembers(pick(whole, ['$defs', 'definitions']));
  return { $ref: $ref.replace(/^#\/definitions\//, '#/$defs/'), ...definitions };
}

function reduceMembers(schema: Json): Json {
  const reduced: Record<string, unknown> = {};
  const { const: only, nullable } = schema;
  for (const [keyword, value] of Object.entries(schema)) {
    const group = named.get(keyword);
    if (plain.has(keyword)) reduced[keyword] = value;
    else if (ofOne.has(keyword)) reduced[keyword] = Array.isArray(value) ? {} : reduceSchema(value);
    else if (ofMany.has(keyword) && Array.isArray(value)) reduced[keyword] = value.map(reduceSchema);
    else if (group !== undefined && isRecord(value)) {
      const members = Object.entries(value).map(([name, each]) => [name, reduceSchema(each)] as const);
      reduced[group] = { ...(reduced[group] as Json | undefined), ...Object.fromEntries(members) };
    }
  }
  if (only !== undefined) reduced['enum'] = [only];
  if (nullable === true && typeof reduced['type'] === 'string') reduced['type'] = [reduced['type'], 'null'];
  return reduced;
}

/**
 * Merges the members of `allOf` into the schema: `properties` and `required` are joined, for other keywords the first
 * value is used.
 */
function merged(schema: Json): Json {
  const { allOf, ...rest } = schema;
  if (!Array.isArray(allOf)) return schema;
  let whole: Json = rest;
  for (const part of allOf as unknown[]) {
    if (!isRecord(part)) continue;
    const other = merged(part);
    whole = {
      ...other,
      ...whole,
      ...joined(whole, other, 'properties', (a: Json, b: Json) => ({ ...b, ...a })),
      ...joined(whole, other, '$defs', (a: Json, b: Json) => ({ ...b, ...a })),
      ...joined(whole, other, 'required', (a: readonly string[], b: readonly string[]) => [
        ...new Set([...a, ...b]),
      ]),
    };
  }
  return whole;
}

function joined<T>(a: Json, b: Json, keyword: string, join: (a: T, b: T) => T): Json {
  const [first, second] = [a[keyword], b[keyword]];
  return first !== undefined && second !== undefined ? { [keyword]: join(first as T, second as T) } : {};
}

const pick = (schema: Json, keys: readonly string[]): Json =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => keys.includes(key)));
