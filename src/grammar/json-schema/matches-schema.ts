import { isRecord } from '../../util/json.ts';
import { acceptsText, toAutomaton } from '../regex/automaton.ts';
import { parseRegex } from '../regex/parse-regex.ts';
import type { SchemaLocation, SchemaDocument, SchemaObject } from './schema-document.ts';
import { numberFormats, findStringFormat } from './formats.ts';
import {
  boundsOf,
  sortedJson,
  countOf,
  membersOf,
  numberOf,
  locationOf,
  locationsOf,
  stringsOf,
  jsonTypeOf,
  allowedTypesOf,
  enumeratedValuesOf,
} from './keywords.ts';
import { createNotASchemaError, appendPointer, createUnsupportedError } from './schema-errors.ts';

const maxDepth = 200;

/** Whether a value matches a schema. Used for values that the schema enumerates (`enum`, `const`). */
export function matchesSchema(
  document: SchemaDocument,
  location: SchemaLocation,
  value: unknown,
  depth = 0,
): boolean {
  const { schema, path } = location;
  if (typeof schema === 'boolean') return schema;
  if (!isRecord(schema)) throw createNotASchemaError(path, schema);
  if (depth > maxDepth)
    throw createUnsupportedError(path, '$ref', 'schemas refer to each other in an endless loop');
  const matchesOther = (other: SchemaLocation, one: unknown = value) =>
    matchesSchema(document, other, one, depth + 1);
  if (schema['$ref'] !== undefined && !matchesOther(document.resolve(schema, schema['$ref'], path)))
    return false;
  for (const keyword of ['$dynamicRef', '$recursiveRef', 'unevaluatedItems', 'unevaluatedProperties']) {
    if (schema[keyword] !== undefined)
      throw createUnsupportedError(path, keyword, "in combination with 'enum' or 'const'");
  }
  const types = allowedTypesOf(location);
  const type = jsonTypeOf(value);
  if (types && !types.has(type) && !(types.has('integer') && Number.isInteger(value))) return false;
  const values = enumeratedValuesOf(location);
  if (values && !values.some((one) => sortedJson(one) === sortedJson(value))) return false;
  if (!locationsOf(location, 'allOf').every((one) => matchesOther(one))) return false;
  const anyOf = locationsOf(location, 'anyOf');
  if (anyOf.length > 0 && !anyOf.some((one) => matchesOther(one))) return false;
  const oneOf = locationsOf(location, 'oneOf');
  if (oneOf.length > 0 && oneOf.filter((one) => matchesOther(one)).length !== 1) return false;
  const negated = locationOf(location, 'not');
  if (negated && matchesOther(negated)) return false;
  const condition = locationOf(location, 'if');
  if (condition) {
    const branch = locationOf(location, matchesOther(condition) ? 'then' : 'else');
    if (branch && !matchesOther(branch)) return false;
  }
  if (typeof value === 'number') return numberMatches(location, value);
  if (typeof value === 'string') return stringMatches(location, value);
  if (Array.isArray(value)) return arrayMatches(location, value, matchesOther);
  if (isRecord(value)) return objectMatches(location, value, matchesOther);
  return true;
}

type MatchesSchema = (location: SchemaLocation, value?: unknown) => boolean;

function numberMatches(location: SchemaLocation, value: number): boolean {
  for (const bound of boundsOf(location, 'least'))
    if (value < bound.value || (value === bound.value && !bound.isInclusive)) return false;
  for (const bound of boundsOf(location, 'most'))
    if (value > bound.value || (value === bound.value && !bound.isInclusive)) return false;
  const factor = numberOf(location, 'multipleOf');
  if (factor !== undefined && !Number.isInteger(value / factor)) return false;
  const format = (location.schema as SchemaObject)['format'];
  const bounds =
    typeof format === 'string' && Object.hasOwn(numberFormats, format) ? numberFormats[format] : undefined;
  if (!bounds) return true;
  return (
    (!bounds.isInteger || Number.isInteger(value)) &&
    value >= (bounds.min ?? Number.NEGATIVE_INFINITY) &&
    value <= (bounds.max ?? Number.POSITIVE_INFINITY)
  );
}

export function matchesPattern(pattern: string, text: string): boolean {
  return acceptsText(toAutomaton(parseRegex(pattern, 'search')), text);
}

function stringMatches(location: SchemaLocation, value: string): boolean {
  const length = Array.from(value).length;
  if (length < (countOf(location, 'minLength') ?? 0)) return false;
  if (length > (countOf(location, 'maxLength') ?? Number.POSITIVE_INFINITY)) return false;
  const { pattern, format } = location.schema as SchemaObject;
  if (typeof pattern === 'string' && !matchesPattern(pattern, value)) return false;
  if (typeof format !== 'string') return true;
  const expression = findStringFormat(format);
  if (expression === 'beyond')
    throw createUnsupportedError(
      appendPointer(location.path, 'format'),
      'format',
      `'${format}' is an unknown format`,
    );
  return !expression || acceptsText(toAutomaton(expression), value);
}

function arrayMatches(
  location: SchemaLocation,
  value: readonly unknown[],
  matchesOther: MatchesSchema,
): boolean {
  if (value.length < (countOf(location, 'minItems') ?? 0)) return false;
  if (value.length > (countOf(location, 'maxItems') ?? Number.POSITIVE_INFINITY)) return false;
  const schema = location.schema as SchemaObject;
  const usesLegacyItems = Array.isArray(schema['items']);
  const prefix = locationsOf(location, usesLegacyItems ? 'items' : 'prefixItems');
  const rest = locationOf(location, usesLegacyItems ? 'additionalItems' : 'items');
  if (
    !value.every((one, index) => {
      const item = prefix[index] ?? rest;
      return !item || matchesOther(item, one);
    })
  )
    return false;
  if (schema['uniqueItems'] === true && new Set(value.map(sortedJson)).size < value.length) return false;
  const contains = locationOf(location, 'contains');
  if (!contains) return true;
  const matchCount = value.filter((one) => matchesOther(contains, one)).length;
  return (
    matchCount >= (countOf(location, 'minContains') ?? 1) &&
    matchCount <= (countOf(location, 'maxContains') ?? Number.POSITIVE_INFINITY)
  );
}

function objectMatches(location: SchemaLocation, value: SchemaObject, matchesOther: MatchesSchema): boolean {
  const { path } = location;
  const names = Object.keys(value);
  if (names.length < (countOf(location, 'minProperties') ?? 0)) return false;
  if (names.length > (countOf(location, 'maxProperties') ?? Number.POSITIVE_INFINITY)) return false;
  if (!stringsOf(location, 'required').every((name) => Object.hasOwn(value, name))) return false;
  const properties = new Map(membersOf(location, 'properties'));
  const patterns = membersOf(location, 'patternProperties');
  const additional = locationOf(location, 'additionalProperties');
  const nameSchema = locationOf(location, 'propertyNames');
  for (const name of names) {
    if (nameSchema && !matchesOther(nameSchema, name)) return false;
    const memberSchemas: SchemaLocation[] = [];
    if (properties.has(name)) {
      memberSchemas.push({
        schema: properties.get(name) as SchemaObject,
        path: appendPointer(path, 'properties', name),
      });
    }
    for (const [pattern, schema] of patterns) {
      if (!matchesPattern(pattern, name)) continue;
      memberSchemas.push({
        schema: schema as SchemaObject,
        path: appendPointer(path, 'patternProperties', pattern),
      });
    }
    if (memberSchemas.length === 0 && additional) memberSchemas.push(additional);
    if (!memberSchemas.every((memberSchema) => matchesOther(memberSchema, value[name]))) return false;
  }
  for (const keyword of ['dependencies', 'dependentRequired', 'dependentSchemas']) {
    for (const [name, required] of membersOf(location, keyword)) {
      if (!Object.hasOwn(value, name)) continue;
      if (
        Array.isArray(required)
          ? !required.every((one) => Object.hasOwn(value, String(one)))
          : !matchesOther({ schema: required as SchemaObject, path: appendPointer(path, keyword, name) })
      )
        return false;
    }
  }
  return true;
}
