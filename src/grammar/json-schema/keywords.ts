import { isRecord } from '../../util/json.ts';
import type { Place, Schema, SchemaObject } from './document.ts';
import { malformed, pointer } from './refusal.ts';

/** The JSON types; integers are numbers. */
export const jsonTypes = ['object', 'array', 'string', 'number', 'boolean', 'null'] as const;
export type JsonType = (typeof jsonTypes)[number];

/**
 * Reads a keyword with a number. This and the following functions throw GrammarError with the path of an invalid value.
 */
export function numberOf({ schema, path }: Place, keyword: string): number | undefined {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw malformed(pointer(path, keyword), `'${keyword}' must be a number`);
  return value;
}

export function countOf(place: Place, keyword: string): number | undefined {
  const value = numberOf(place, keyword);
  if (value === undefined) return undefined;
  if (value < 0 || !Number.isInteger(value))
    throw malformed(pointer(place.path, keyword), `'${keyword}' must be a whole number >= 0`);
  return value;
}

export function textsOf({ schema, path }: Place, keyword: string): readonly string[] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  // Draft 3 had `required: true` in properties, and such schemas are still in use.
  if (keyword === 'required' && typeof value === 'boolean') return [];
  if (!Array.isArray(value) || value.some((one) => typeof one !== 'string'))
    throw malformed(pointer(path, keyword), `'${keyword}' must be an array of strings`);
  return value as string[];
}

/** Members of a keyword whose value is an object. */
export function membersOf({ schema, path }: Place, keyword: string): [name: string, value: unknown][] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  if (!isRecord(value)) throw malformed(pointer(path, keyword), `'${keyword}' must be an object`);
  return Object.entries(value);
}

export function placesOf({ schema, path }: Place, keyword: string): Place[] {
  const value = (schema as SchemaObject)[keyword];
  if (value === undefined) return [];
  if (!Array.isArray(value))
    throw malformed(pointer(path, keyword), `'${keyword}' must be an array of schemas`);
  return value.map((one: Schema, index) => ({ schema: one, path: pointer(path, keyword, index) }));
}

export function placeOf({ schema, path }: Place, keyword: string): Place | undefined {
  const value = (schema as SchemaObject)[keyword];
  return value === undefined ? undefined : { schema: value as Schema, path: pointer(path, keyword) };
}

/** The types that `type` (and OpenAPI's `nullable`) allow; undefined when all are allowed. */
export function typesOf({ schema, path }: Place): ReadonlySet<JsonType | 'integer'> | undefined {
  const { type, nullable } = schema as SchemaObject;
  if (type === undefined) return undefined;
  const list: unknown[] = Array.isArray(type) ? type : [type];
  const known: readonly unknown[] = [...jsonTypes, 'integer'];
  for (const one of list) {
    if (known.includes(one)) continue;
    throw malformed(
      pointer(path, 'type'),
      `'type' must be one of ${known.join(', ')}, or an array of them, got ${JSON.stringify(one)?.slice(0, 100)}`,
    );
  }
  const types = new Set(list as (JsonType | 'integer')[]);
  if (nullable === true) types.add('null');
  return types;
}

/** The values of `const` and `enum`. */
export function valuesOf({ schema, path }: Place): readonly unknown[] | undefined {
  const object = schema as SchemaObject;
  if (Object.hasOwn(object, 'const')) return [object['const']];
  const values = object['enum'];
  if (values === undefined) return undefined;
  if (!Array.isArray(values)) throw malformed(pointer(path, 'enum'), "'enum' must be an array of values");
  return values;
}

/** The lower or upper bounds of a number. Draft 4 has `exclusiveMinimum: true` in addition to `minimum`. */
export function boundsOf(place: Place, side: 'least' | 'most') {
  const [bound, strict] =
    side === 'least' ? ['minimum', 'exclusiveMinimum'] : ['maximum', 'exclusiveMaximum'];
  const object = place.schema as SchemaObject;
  const flag = typeof object[strict] === 'boolean' ? object[strict] : undefined;
  const found: { value: number; included: boolean; path: string }[] = [];
  const value = numberOf(place, bound);
  if (value !== undefined) found.push({ value, included: flag !== true, path: pointer(place.path, bound) });
  const beyond = flag === undefined ? numberOf(place, strict) : undefined;
  if (beyond !== undefined) found.push({ value: beyond, included: false, path: pointer(place.path, strict) });
  return found;
}

export const typeOf = (value: unknown): JsonType => {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value as JsonType;
};

/** JSON with sorted members, so that equal values have equal texts. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`).join()}}`;
  }
  return Object.is(value, -0) ? '0' : (JSON.stringify(value) ?? 'undefined');
}
