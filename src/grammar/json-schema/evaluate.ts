import { isRecord } from '../../util/json.ts';
import { matches, toAutomaton } from '../regex/automaton.ts';
import { parseRegex } from '../regex/parse.ts';
import type { Place, SchemaDocument, SchemaObject } from './document.ts';
import { numberFormats, textFormat } from './formats.ts';
import {
  boundsOf,
  canonical,
  countOf,
  membersOf,
  numberOf,
  placeOf,
  placesOf,
  textsOf,
  typeOf,
  typesOf,
  valuesOf,
} from './keywords.ts';
import { notASchema, pointer, unsupported } from './refusal.ts';

const mostDepth = 200;

/** Whether a value matches a schema. Used for values that the schema enumerates (`enum`, `const`). */
export function holds(document: SchemaDocument, place: Place, value: unknown, depth = 0): boolean {
  const { schema, path } = place;
  if (typeof schema === 'boolean') return schema;
  if (!isRecord(schema)) throw notASchema(path, schema);
  if (depth > mostDepth) throw unsupported(path, '$ref', 'schemas refer to each other in an endless loop');
  const fits = (other: Place, one: unknown = value) => holds(document, other, one, depth + 1);
  if (schema['$ref'] !== undefined && !fits(document.resolve(schema, schema['$ref'], path))) return false;
  for (const keyword of ['$dynamicRef', '$recursiveRef', 'unevaluatedItems', 'unevaluatedProperties']) {
    if (schema[keyword] !== undefined)
      throw unsupported(path, keyword, "in combination with 'enum' or 'const'");
  }
  const types = typesOf(place);
  const type = typeOf(value);
  if (types && !types.has(type) && !(types.has('integer') && Number.isInteger(value))) return false;
  const values = valuesOf(place);
  if (values && !values.some((one) => canonical(one) === canonical(value))) return false;
  if (!placesOf(place, 'allOf').every((one) => fits(one))) return false;
  const anyOf = placesOf(place, 'anyOf');
  if (anyOf.length > 0 && !anyOf.some((one) => fits(one))) return false;
  const oneOf = placesOf(place, 'oneOf');
  if (oneOf.length > 0 && oneOf.filter((one) => fits(one)).length !== 1) return false;
  const negated = placeOf(place, 'not');
  if (negated && fits(negated)) return false;
  const condition = placeOf(place, 'if');
  if (condition) {
    const branch = placeOf(place, fits(condition) ? 'then' : 'else');
    if (branch && !fits(branch)) return false;
  }
  if (typeof value === 'number') return numberHolds(place, value);
  if (typeof value === 'string') return textHolds(place, value);
  if (Array.isArray(value)) return listHolds(place, value, fits);
  if (isRecord(value)) return objectHolds(place, value, fits);
  return true;
}

type Fits = (place: Place, value?: unknown) => boolean;

function numberHolds(place: Place, value: number): boolean {
  for (const bound of boundsOf(place, 'least'))
    if (value < bound.value || (value === bound.value && !bound.included)) return false;
  for (const bound of boundsOf(place, 'most'))
    if (value > bound.value || (value === bound.value && !bound.included)) return false;
  const factor = numberOf(place, 'multipleOf');
  if (factor !== undefined && !Number.isInteger(value / factor)) return false;
  const format = (place.schema as SchemaObject)['format'];
  const bounds =
    typeof format === 'string' && Object.hasOwn(numberFormats, format) ? numberFormats[format] : undefined;
  if (!bounds) return true;
  return (
    (!bounds.whole || Number.isInteger(value)) &&
    value >= (bounds.least ?? Number.NEGATIVE_INFINITY) &&
    value <= (bounds.most ?? Number.POSITIVE_INFINITY)
  );
}

export function patternMatches(pattern: string, text: string): boolean {
  return matches(toAutomaton(parseRegex(pattern, 'search')), text);
}

function textHolds(place: Place, value: string): boolean {
  const length = Array.from(value).length;
  if (length < (countOf(place, 'minLength') ?? 0)) return false;
  if (length > (countOf(place, 'maxLength') ?? Number.POSITIVE_INFINITY)) return false;
  const { pattern, format } = place.schema as SchemaObject;
  if (typeof pattern === 'string' && !patternMatches(pattern, value)) return false;
  if (typeof format !== 'string') return true;
  const expression = textFormat(format);
  if (expression === 'beyond')
    throw unsupported(pointer(place.path, 'format'), 'format', `'${format}' is an unknown format`);
  return !expression || matches(toAutomaton(expression), value);
}

function listHolds(place: Place, value: readonly unknown[], fits: Fits): boolean {
  if (value.length < (countOf(place, 'minItems') ?? 0)) return false;
  if (value.length > (countOf(place, 'maxItems') ?? Number.POSITIVE_INFINITY)) return false;
  const schema = place.schema as SchemaObject;
  const old = Array.isArray(schema['items']);
  const prefix = placesOf(place, old ? 'items' : 'prefixItems');
  const rest = placeOf(place, old ? 'additionalItems' : 'items');
  if (
    !value.every((one, index) => {
      const item = prefix[index] ?? rest;
      return !item || fits(item, one);
    })
  )
    return false;
  if (schema['uniqueItems'] === true && new Set(value.map(canonical)).size < value.length) return false;
  const contains = placeOf(place, 'contains');
  if (!contains) return true;
  const found = value.filter((one) => fits(contains, one)).length;
  return (
    found >= (countOf(place, 'minContains') ?? 1) &&
    found <= (countOf(place, 'maxContains') ?? Number.POSITIVE_INFINITY)
  );
}

function objectHolds(place: Place, value: SchemaObject, fits: Fits): boolean {
  const { path } = place;
  const names = Object.keys(value);
  if (names.length < (countOf(place, 'minProperties') ?? 0)) return false;
  if (names.length > (countOf(place, 'maxProperties') ?? Number.POSITIVE_INFINITY)) return false;
  if (!textsOf(place, 'required').every((name) => Object.hasOwn(value, name))) return false;
  const properties = new Map(membersOf(place, 'properties'));
  const patterns = membersOf(place, 'patternProperties');
  const additional = placeOf(place, 'additionalProperties');
  const nameRule = placeOf(place, 'propertyNames');
  for (const name of names) {
    if (nameRule && !fits(nameRule, name)) return false;
    const rules: Place[] = [];
    if (properties.has(name)) {
      rules.push({ schema: properties.get(name) as SchemaObject, path: pointer(path, 'properties', name) });
    }
    for (const [pattern, schema] of patterns) {
      if (!patternMatches(pattern, name)) continue;
      rules.push({ schema: schema as SchemaObject, path: pointer(path, 'patternProperties', pattern) });
    }
    if (rules.length === 0 && additional) rules.push(additional);
    if (!rules.every((rule) => fits(rule, value[name]))) return false;
  }
  for (const keyword of ['dependencies', 'dependentRequired', 'dependentSchemas']) {
    for (const [name, needed] of membersOf(place, keyword)) {
      if (!Object.hasOwn(value, name)) continue;
      if (
        Array.isArray(needed)
          ? !needed.every((one) => Object.hasOwn(value, String(one)))
          : !fits({ schema: needed as SchemaObject, path: pointer(path, keyword, name) })
      )
        return false;
    }
  }
  return true;
}
