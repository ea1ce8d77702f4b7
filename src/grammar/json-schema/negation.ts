import { isRecord } from '../../util/json.ts';
import type { Place, Schema, SchemaDocument, SchemaObject } from './document.ts';
import {
  boundsOf,
  canonical,
  countOf,
  jsonTypes,
  membersOf,
  placeOf,
  placesOf,
  textsOf,
  typesOf,
  valuesOf,
} from './keywords.ts';
import { pointer } from './refusal.ts';

const mostDepth = 20;

/**
 * Schemas whose values do not match the given one. They may not cover all such values. Empty when none can be
 * expressed.
 */
export function negations(document: SchemaDocument, place: Place, depth = 0): Place[] {
  const { schema, path } = place;
  if (schema === true || depth > mostDepth) return [];
  if (schema === false) return [{ schema: true, path }];
  if (!isRecord(schema)) return [];
  const found: Schema[] = [];
  const inner = (one: Place) => negations(document, one, depth + 1);
  if (schema['$ref'] !== undefined)
    found.push(...inner(document.resolve(schema, schema['$ref'], path)).map((one) => one.schema));
  const types = typesOf(place);
  if (types) {
    const others = jsonTypes.filter(
      (type) => !types.has(type) && !(type === 'number' && types.has('integer')),
    );
    if (others.length > 0) found.push({ type: others });
  }
  const values = valuesOf(place);
  if (values) found.push({ not: { enum: values } });
  for (const name of textsOf(place, 'required'))
    found.push({ type: 'object', properties: { [name]: false } });
  for (const [name, member] of membersOf(place, 'properties')) {
    for (const one of inner({ schema: member as Schema, path: pointer(path, 'properties', name) }))
      found.push({ type: 'object', required: [name], properties: { [name]: one.schema } });
  }
  for (const { value, included } of boundsOf(place, 'least'))
    found.push({ type: 'number', [included ? 'exclusiveMaximum' : 'maximum']: value });
  for (const { value, included } of boundsOf(place, 'most'))
    found.push({ type: 'number', [included ? 'exclusiveMinimum' : 'minimum']: value });
  for (const [type, least, most] of [
    ['string', 'minLength', 'maxLength'],
    ['array', 'minItems', 'maxItems'],
    ['object', 'minProperties', 'maxProperties'],
  ] as const) {
    const [from, to] = [countOf(place, least), countOf(place, most)];
    if (from !== undefined && from > 0) found.push({ type, [most]: from - 1 });
    if (to !== undefined) found.push({ type, [least]: to + 1 });
  }
  if (typeof schema['pattern'] === 'string')
    found.push({ type: 'string', not: { type: 'string', pattern: schema['pattern'] } });
  const negated = placeOf(place, 'not');
  if (negated) found.push(negated.schema);
  for (const one of placesOf(place, 'allOf')) found.push(...inner(one).map((other) => other.schema));
  const anyOf = placesOf(place, 'anyOf').map(inner);
  if (anyOf.length > 0 && anyOf.every((list) => list.length > 0))
    found.push({ allOf: anyOf.map((list) => ({ anyOf: list.map((one) => one.schema) })) });
  return found.map((one) => ({ schema: one, path }));
}

/** Simple properties of a schema, to detect schemas that no value can both match. */
interface Traits {
  readonly types: ReadonlySet<string> | undefined;
  readonly values: ReadonlySet<string> | undefined;
  readonly required: ReadonlySet<string>;
  /** Allowed values of properties that are enumerated. */
  readonly marks: ReadonlyMap<string, ReadonlySet<string>>;
  /** The only allowed properties; undefined when others are allowed. */
  readonly only: ReadonlySet<string> | undefined;
}

export function traitsOf(document: SchemaDocument, place: Place, depth = 0): Traits {
  const { schema, path } = place;
  if (!isRecord(schema) || depth > mostDepth)
    return { types: undefined, values: undefined, required: new Set(), marks: new Map(), only: undefined };
  const values = valuesOf(place);
  const given = typesOf(place);
  const own: Traits = {
    types: given && new Set([...given].map((type) => (type === 'integer' ? 'number' : type))),
    values: values && new Set(values.map(canonical)),
    required: new Set(textsOf(place, 'required')),
    marks: new Map(
      membersOf(place, 'properties').flatMap(([name, member]) => {
        if (!isRecord(member)) return [];
        const inner = traitsOf(
          document,
          { schema: member, path: pointer(path, 'properties', name) },
          depth + 1,
        );
        return inner.values ? [[name, inner.values] as const] : [];
      }),
    ),
    only:
      schema['additionalProperties'] === false && schema['patternProperties'] === undefined
        ? new Set(membersOf(place, 'properties').map(([name]) => name))
        : undefined,
  };
  const others = placesOf(place, 'allOf');
  if (schema['$ref'] !== undefined) others.push(document.resolve(schema, schema['$ref'], path));
  return others.map((one) => traitsOf(document, one, depth + 1)).reduce(joined, own);
}

function joined(a: Traits, b: Traits): Traits {
  const marks = new Map(a.marks);
  for (const [name, values] of b.marks)
    marks.set(name, common(marks.get(name), values) as ReadonlySet<string>);
  return {
    types: common(a.types, b.types),
    values: common(a.values, b.values),
    required: new Set([...a.required, ...b.required]),
    marks,
    only: common(a.only, b.only),
  };
}

function common(a: ReadonlySet<string> | undefined, b: ReadonlySet<string> | undefined) {
  return a && b ? new Set([...a].filter((one) => b.has(one))) : (a ?? b);
}

/** Whether certainly no value matches both. */
export function apart(a: Traits, b: Traits): boolean {
  const none = (left: ReadonlySet<string> | undefined, right: ReadonlySet<string> | undefined) =>
    left !== undefined && right !== undefined && ![...left].some((one) => right.has(one));
  if (none(a.types, b.types) || none(a.values, b.values)) return true;
  const objects = ({ types }: Traits) => types?.size === 1 && types.has('object');
  if (!objects(a) || !objects(b)) return false;
  const marked = [...a.required].some(
    (name) => b.required.has(name) && none(a.marks.get(name), b.marks.get(name)),
  );
  const beyond = (one: Traits, other: Traits) =>
    other.only !== undefined && [...one.required].some((name) => !other.only?.has(name));
  return marked || beyond(a, b) || beyond(b, a);
}

/** Whether a schema only has values or a string pattern, so that its `not` can be enforced directly. */
export function isPlainNegation(schema: Schema): schema is SchemaObject {
  if (!isRecord(schema)) return false;
  const text = schema['type'] === 'string';
  const keywords = Object.keys(schema).filter((one) => one !== 'type' || !text);
  // Without `type`, a pattern allows all values that are not strings.
  return (
    keywords.length === 1 &&
    (text ? ['const', 'enum', 'pattern'] : ['const', 'enum']).includes(keywords[0] as string)
  );
}
