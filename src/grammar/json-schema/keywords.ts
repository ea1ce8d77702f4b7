import { isRecord } from '../../util/json.ts';
import type { SchemaLocation, Schema, SchemaObject } from './schema-document.ts';
import { createMalformedError, appendPointer } from './schema-errors.ts';

/** The JSON types; integers are numbers. */
export const jsonTypes = ['object', 'array', 'string', 'number', 'boolean', 'null'] as const;
export type JsonType = (typeof jsonTypes)[number];

/**
 * Reads a keyword with a number. This and the following functions throw GrammarError with the path of an invalid value.
 */
export function numberOf({ schema, path }: SchemaLocation, keyword: string): number | undefined {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw createMalformedError(appendPointer(path, keyword), `'${keyword}' must be a number`);
  return value;
}

export function countOf(location: SchemaLocation, keyword: string): number | undefined {
  const value = numberOf(location, keyword);
  if (value === undefined) return undefined;
  if (value < 0 || !Number.isInteger(value))
    throw createMalformedError(
      appendPointer(location.path, keyword),
      `'${keyword}' must be a whole number >= 0`,
    );
  return value;
}

export function stringsOf({ schema, path }: SchemaLocation, keyword: string): readonly string[] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  // Draft 3 had `required: true` in properties, and such schemas are still in use.
  if (keyword === 'required' && typeof value === 'boolean') return [];
  if (!Array.isArray(value) || value.some((one) => typeof one !== 'string'))
    throw createMalformedError(appendPointer(path, keyword), `'${keyword}' must be an array of strings`);
  return value as string[];
}

/** Members of a keyword whose value is an object. */
export function membersOf(
  { schema, path }: SchemaLocation,
  keyword: string,
): [name: string, value: unknown][] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  if (!isRecord(value))
    throw createMalformedError(appendPointer(path, keyword), `'${keyword}' must be an object`);
  return Object.entries(value);
}

export function locationsOf({ schema, path }: SchemaLocation, keyword: string): SchemaLocation[] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  if (!Array.isArray(value))
    throw createMalformedError(appendPointer(path, keyword), `'${keyword}' must be an array of schemas`);
  return value.map((one: Schema, index) => ({ schema: one, path: appendPointer(path, keyword, index) }));
}

export function locationOf({ schema, path }: SchemaLocation, keyword: string): SchemaLocation | undefined {
  const value = (schema as SchemaObject)[keyword];
  return value === undefined ? undefined : { schema: value as Schema, path: appendPointer(path, keyword) };
}

/** The types that `type` (and OpenAPI's `nullable`) allow; undefined when all are allowed. */
export function allowedTypesOf({
  schema,
  path,
}: SchemaLocation): ReadonlySet<JsonType | 'integer'> | undefined {
  const { type, nullable } = schema as SchemaObject;
  if (type === undefined) return undefined;
  const list: unknown[] = Array.isArray(type) ? type : [type];
  const known: readonly unknown[] = [...jsonTypes, 'integer'];
  for (const one of list) {
    if (known.includes(one)) continue;
    throw createMalformedError(
      appendPointer(path, 'type'),
      `'type' must be one of ${known.join(', ')}, or an array of them, got ${JSON.stringify(one)?.slice(0, 100)}`,
    );
  }
  const types = new Set(list as (JsonType | 'integer')[]);
  if (nullable === true) types.add('null');
  return types;
}

/** The values of `const` and `enum`. */
export function enumeratedValuesOf({ schema, path }: SchemaLocation): readonly unknown[] | undefined {
  const object = schema as SchemaObject;
  if (Object.hasOwn(object, 'const')) return [object['const']];
  const values = object['enum'];
  if (values === undefined) return undefined;
  if (!Array.isArray(values))
    throw createMalformedError(appendPointer(path, 'enum'), "'enum' must be an array of values");
  return values;
}

/** The lower or upper bounds of a number. Draft 4 has `exclusiveMinimum: true` in addition to `minimum`. */
export function boundsOf(location: SchemaLocation, side: 'least' | 'most') {
  const [keyword, exclusiveKeyword] =
    side === 'least' ? ['minimum', 'exclusiveMinimum'] : ['maximum', 'exclusiveMaximum'];
  const object = location.schema as SchemaObject;
  const isExclusiveFlag =
    typeof object[exclusiveKeyword] === 'boolean' ? object[exclusiveKeyword] : undefined;
  const found: { value: number; isInclusive: boolean; path: string }[] = [];
  const value = numberOf(location, keyword);
  if (value !== undefined)
    found.push({ value, isInclusive: isExclusiveFlag !== true, path: appendPointer(location.path, keyword) });
  const exclusiveBound = isExclusiveFlag === undefined ? numberOf(location, exclusiveKeyword) : undefined;
  if (exclusiveBound !== undefined)
    found.push({
      value: exclusiveBound,
      isInclusive: false,
      path: appendPointer(location.path, exclusiveKeyword),
    });
  return found;
}

export const jsonTypeOf = (value: unknown): JsonType => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value as JsonType;
};

/** JSON with sorted members, so that equal values have equal texts. */
export function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join()}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${sortedJson(one)}`).join()}}`;
  }
  return Object.is(value, -0) ? '0' : (JSON.stringify(value) ?? 'undefined');
}
