import { isRecord } from '../../util/json.ts';
import type { SchemaLocation, Schema, SchemaDocument, SchemaObject } from './schema-document.ts';
import {
  boundsOf,
  sortedJson,
  countOf,
  jsonTypes,
  membersOf,
  locationOf,
  locationsOf,
  stringsOf,
  allowedTypesOf,
  enumeratedValuesOf,
} from './keywords.ts';
import { appendPointer } from './schema-errors.ts';

const maxDepth = 20;

/**
 * Schemas whose values do not match the given one. They may not cover all such values. Empty when none can be
 * expressed.
 */
export function negations(document: SchemaDocument, location: SchemaLocation, depth = 0): SchemaLocation[] {
  const { schema, path } = location;
  if (schema === true || depth > maxDepth) return [];
  if (schema === false) return [{ schema: true, path }];
  if (!isRecord(schema)) return [];
  const schemas: Schema[] = [];
  const negateInner = (one: SchemaLocation) => negations(document, one, depth + 1);
  if (schema['$ref'] !== undefined)
    schemas.push(...negateInner(document.resolve(schema, schema['$ref'], path)).map((one) => one.schema));
  const types = allowedTypesOf(location);
  if (types) {
    const otherTypes = jsonTypes.filter(
      (type) => !types.has(type) && !(type === 'number' && types.has('integer')),
    );
    if (otherTypes.length > 0) schemas.push({ type: otherTypes });
  }
  const values = enumeratedValuesOf(location);
  if (values) schemas.push({ not: { enum: values } });
  for (const name of stringsOf(location, 'required'))
    schemas.push({ type: 'object', properties: { [name]: false } });
  for (const [name, member] of membersOf(location, 'properties')) {
    for (const one of negateInner({
      schema: member as Schema,
      path: appendPointer(path, 'properties', name),
    }))
      schemas.push({ type: 'object', required: [name], properties: { [name]: one.schema } });
  }
  for (const { value, isInclusive: included } of boundsOf(location, 'least'))
    schemas.push({ type: 'number', [included ? 'exclusiveMaximum' : 'maximum']: value });
  for (const { value, isInclusive: included } of boundsOf(location, 'most'))
    schemas.push({ type: 'number', [included ? 'exclusiveMinimum' : 'minimum']: value });
  for (const [type, least, most] of [
    ['string', 'minLength', 'maxLength'],
    ['array', 'minItems', 'maxItems'],
    ['object', 'minProperties', 'maxProperties'],
  ] as const) {
    const [from, to] = [countOf(location, least), countOf(location, most)];
    if (from !== undefined && from > 0) schemas.push({ type, [most]: from - 1 });
    if (to !== undefined) schemas.push({ type, [least]: to + 1 });
  }
  if (typeof schema['pattern'] === 'string')
    schemas.push({ type: 'string', not: { type: 'string', pattern: schema['pattern'] } });
  const negated = locationOf(location, 'not');
  if (negated) schemas.push(negated.schema);
  for (const one of locationsOf(location, 'allOf'))
    schemas.push(...negateInner(one).map((other) => other.schema));
  const anyOf = locationsOf(location, 'anyOf').map(negateInner);
  if (anyOf.length > 0 && anyOf.every((list) => list.length > 0))
    schemas.push({ allOf: anyOf.map((list) => ({ anyOf: list.map((one) => one.schema) })) });
  return schemas.map((one) => ({ schema: one, path }));
}

/** Simple properties of a schema, to detect schemas that no value can both match. */
interface Traits {
  readonly types: ReadonlySet<string> | undefined;
  readonly values: ReadonlySet<string> | undefined;
  readonly required: ReadonlySet<string>;
  /** Allowed values of properties that are enumerated. */
  readonly constants: ReadonlyMap<string, ReadonlySet<string>>;
  /** The only allowed properties; undefined when others are allowed. */
  readonly allowedProperties: ReadonlySet<string> | undefined;
}

export function traitsOf(document: SchemaDocument, location: SchemaLocation, depth = 0): Traits {
  const { schema, path } = location;
  if (!isRecord(schema) || depth > maxDepth)
    return {
      types: undefined,
      values: undefined,
      required: new Set(),
      constants: new Map(),
      allowedProperties: undefined,
    };
  const values = enumeratedValuesOf(location);
  const declaredTypes = allowedTypesOf(location);
  const ownTraits: Traits = {
    types: declaredTypes && new Set([...declaredTypes].map((type) => (type === 'integer' ? 'number' : type))),
    values: values && new Set(values.map(sortedJson)),
    required: new Set(stringsOf(location, 'required')),
    constants: new Map(
      membersOf(location, 'properties').flatMap(([name, member]) => {
        if (!isRecord(member)) return [];
        const negateInner = traitsOf(
          document,
          { schema: member, path: appendPointer(path, 'properties', name) },
          depth + 1,
        );
        return negateInner.values ? [[name, negateInner.values] as const] : [];
      }),
    ),
    allowedProperties:
      schema['additionalProperties'] === false && schema['patternProperties'] === undefined
        ? new Set(membersOf(location, 'properties').map(([name]) => name))
        : undefined,
  };
  const referenced = locationsOf(location, 'allOf');
  if (schema['$ref'] !== undefined) referenced.push(document.resolve(schema, schema['$ref'], path));
  return referenced.map((one) => traitsOf(document, one, depth + 1)).reduce(mergeTraits, ownTraits);
}

function mergeTraits(a: Traits, b: Traits): Traits {
  const constants = new Map(a.constants);
  for (const [name, values] of b.constants)
    constants.set(name, intersectSets(constants.get(name), values) as ReadonlySet<string>);
  return {
    types: intersectSets(a.types, b.types),
    values: intersectSets(a.values, b.values),
    required: new Set([...a.required, ...b.required]),
    constants,
    allowedProperties: intersectSets(a.allowedProperties, b.allowedProperties),
  };
}

function intersectSets(a: ReadonlySet<string> | undefined, b: ReadonlySet<string> | undefined) {
  return a && b ? new Set([...a].filter((one) => b.has(one))) : (a ?? b);
}

/** Whether certainly no value matches both. */
export function areDisjoint(a: Traits, b: Traits): boolean {
  const areDisjointSets = (left: ReadonlySet<string> | undefined, right: ReadonlySet<string> | undefined) =>
    left !== undefined && right !== undefined && ![...left].some((one) => right.has(one));
  if (areDisjointSets(a.types, b.types) || areDisjointSets(a.values, b.values)) return true;
  const isObject = ({ types }: Traits) => types?.size === 1 && types.has('object');
  if (!isObject(a) || !isObject(b)) return false;
  const haveDisjointConstants = [...a.required].some(
    (name) => b.required.has(name) && areDisjointSets(a.constants.get(name), b.constants.get(name)),
  );
  const requiresDisallowed = (one: Traits, other: Traits) =>
    other.allowedProperties !== undefined &&
    [...one.required].some((name) => !other.allowedProperties?.has(name));
  return haveDisjointConstants || requiresDisallowed(a, b) || requiresDisallowed(b, a);
}

/** Whether a schema only has values or a string pattern, so that its `not` can be enforced directly. */
export function isSimpleNegation(schema: Schema): schema is SchemaObject {
  if (!isRecord(schema)) return false;
  const isString = schema['type'] === 'string';
  const keywords = Object.keys(schema).filter((one) => one !== 'type' || !isString);
  // Without `type`, a pattern allows all values that are not strings.
  return (
    keywords.length === 1 &&
    (isString ? ['const', 'enum', 'pattern'] : ['const', 'enum']).includes(keywords[0] as string)
  );
}
