import { isRecord } from '../../util/json.ts';
import {
  choice,
  empty,
  type Expression,
  never,
  repeat,
  rule,
  sequence,
  set,
  text,
} from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import type { GrammarError } from '../types.ts';
import {
  type Automaton,
  intersectAutomata,
  acceptsNothing,
  acceptsText,
  complementAutomaton,
  toAutomaton,
} from '../regex/automaton.ts';
import { writeAutomaton } from '../regex/write-automaton.ts';
import type { SchemaNormalizer, Conjunction } from './schema-normalizer.ts';
import type { SchemaLocation, Schema, SchemaDocument, SchemaObject } from './schema-document.ts';
import { matchesSchema } from './matches-schema.ts';
import { countOf, membersOf, locationOf, stringsOf, allowedTypesOf, enumeratedValuesOf } from './keywords.ts';
import { createMalformedError, appendPointer, createUnsupportedError } from './schema-errors.ts';
import { readPattern, buildStringAutomaton, readStringConstraints } from './string.ts';
import { toStringCharacter } from './json-syntax.ts';

export interface ObjectSchemaContext {
  readonly document: SchemaDocument;
  readonly normalizer: SchemaNormalizer;
  readonly builder: GrammarBuilder;
  /** Returns the expression of a value that matches all schemas. */
  readonly value: (conjunction: Conjunction) => Expression;
}

/** One of the schemas that an object must match. */
interface ObjectSchema {
  readonly location: SchemaLocation;
  readonly properties: ReadonlyMap<string, SchemaLocation>;
  readonly patterns: readonly { source: string; automaton: Automaton; location: SchemaLocation }[];
  readonly additional: SchemaLocation | undefined;
  readonly propertyNames: SchemaLocation | undefined;
}

interface Property {
  readonly name: string;
  readonly conjunction: Conjunction;
  readonly required: boolean;
}

const maxPatterns = 4;
const maxStates = 10_000;

/** @returns undefined when no object matches */
export function writeObject(
  context: ObjectSchemaContext,
  locations: readonly SchemaLocation[],
  conjunction: Conjunction,
): Expression | undefined {
  const schemas = locations.map((location) => readObjectSchema(location));
  const allowedNames = findEvaluatedNames(locations, conjunction);
  const required = new Set(locations.flatMap((location) => stringsOf(location, 'required')));
  const names = new Set([...schemas.flatMap(({ properties }) => [...properties.keys()]), ...required]);
  const properties: Property[] = [];
  for (const name of names) {
    const memberSchemas = memberConjunction(context, schemas, name);
    const isAllowed = !allowedNames || allowedNames.has(name);
    if (memberSchemas && isAllowed)
      properties.push({ name, conjunction: memberSchemas, required: required.has(name) });
    else if (required.has(name)) {
      context.builder.recordConflict(createImpossibleError(locations, name));
      return undefined;
    }
  }
  const minProperties = Math.max(0, ...locations.map((location) => countOf(location, 'minProperties') ?? 0));
  const maxProperties = Math.min(
    ...locations.map((location) => countOf(location, 'maxProperties') ?? Number.POSITIVE_INFINITY),
  );
  if (minProperties > maxProperties) return undefined;
  const additionalMember = allowedNames ? undefined : writeAdditionalMember(context, schemas, names);
  const path = locations[0]?.path ?? '';
  const needsUnknownNames = additionalMember && minProperties > properties.length + 1;
  if (needsUnknownNames)
    throw createUnsupportedError(
      path,
      'minProperties',
      'additional properties do not count reliably, because the model could write the same name twice',
    );
  return sequence(
    text('{'),
    rule('ws'),
    writeMembers(context, properties, additionalMember, { minProperties, maxProperties, path }),
  );
}

/** The error of a required property that is not allowed. */
function createImpossibleError(locations: readonly SchemaLocation[], name: string): GrammarError {
  const path = locations.find((location) => stringsOf(location, 'required').includes(name))?.path ?? '';
  const isDeclared = locations.some((location) =>
    membersOf(location, 'properties').some(([candidate]) => candidate === name),
  );
  const reason = isDeclared
    ? 'which another keyword does not allow'
    : "which is not in 'properties', and no other properties are allowed; add it there or remove it here";
  const quotedName = JSON.stringify(name.slice(0, 100));
  return createMalformedError(
    appendPointer(path, 'required'),
    `no value matches it: 'required' lists ${quotedName}, ${reason}`,
  );
}

function readObjectSchema(location: SchemaLocation): ObjectSchema {
  const { path } = location;
  return {
    location,
    properties: new Map(
      membersOf(location, 'properties').map(([name, schema]) => [
        name,
        { schema: schema as Schema, path: appendPointer(path, 'properties', name) },
      ]),
    ),
    patterns: membersOf(location, 'patternProperties').map(([source, schema]) => {
      const patternPath = appendPointer(path, 'patternProperties', source);
      return {
        source,
        automaton: toAutomaton(readPattern(source, patternPath, 'patternProperties')),
        location: { schema: schema as Schema, path: patternPath },
      };
    }),
    additional: locationOf(location, 'additionalProperties'),
    propertyNames: locationOf(location, 'propertyNames'),
  };
}

/** The schemas that a named member must match; undefined when the member is not allowed. */
function memberConjunction(
  { document }: ObjectSchemaContext,
  schemas: readonly ObjectSchema[],
  name: string,
): Conjunction | undefined {
  const locations: SchemaLocation[] = [];
  for (const { properties, patterns, additional, propertyNames } of schemas) {
    if (propertyNames && !matchesSchema(document, propertyNames, name)) return undefined;
    const ownLocation = properties.get(name);
    const matchingLocations = patterns
      .filter(({ automaton }) => acceptsText(automaton, name))
      .map(({ location }) => location);
    if (ownLocation) matchingLocations.push(ownLocation);
    if (matchingLocations.length === 0 && additional) matchingLocations.push(additional);
    locations.push(...matchingLocations);
  }
  return locations.some(({ schema }) => schema === false) ? undefined : locations;
}

/** The evaluated property names for `unevaluatedProperties`; undefined when the keyword has no effect. */
function findEvaluatedNames(
  locations: readonly SchemaLocation[],
  conjunction: Conjunction,
): ReadonlySet<string> | undefined {
  const keyword = 'unevaluatedProperties';
  const location = locations.find(({ schema }) => {
    const value = (schema as SchemaObject)[keyword];
    return value !== undefined && value !== true && !(isRecord(value) && Object.keys(value).length === 0);
  });
  if (!location) return undefined;
  const [outermost] = conjunction;
  if ((location.schema as SchemaObject)[keyword] !== false)
    throw createUnsupportedError(
      location.path,
      keyword,
      "only 'false' can be enforced; use 'additionalProperties'",
    );
  if (conjunction.length !== 1 || outermost?.schema !== location.schema)
    throw createUnsupportedError(
      location.path,
      keyword,
      'it is in a subschema; move it to the outermost schema',
    );
  if (
    locations.some(
      ({ schema }) =>
        (schema as SchemaObject)['not'] !== undefined || (schema as SchemaObject)['if'] !== undefined,
    )
  )
    throw createUnsupportedError(
      location.path,
      keyword,
      "in combination with 'not' or 'if'; use 'additionalProperties'",
    );
  return new Set(locations.flatMap((each) => membersOf(each, 'properties').map(([name]) => name)));
}

/** Writes a member whose name is not one of `names`; undefined when none is allowed. */
function writeAdditionalMember(
  context: ObjectSchemaContext,
  schemas: readonly ObjectSchema[],
  names: ReadonlySet<string>,
): Expression | undefined {
  const isOpen = schemas.every(
    ({ location, properties, patterns, additional }) =>
      additional !== undefined ||
      (properties.size === 0 && patterns.length === 0 && allowsUnevaluated(location)),
  );
  // Without `additionalProperties`, objects with declared properties get no others. This allows fewer objects, all
  // valid.
  const declaresProperties = schemas.some(({ properties }) => properties.size > 0);
  const allowsAdditional = schemas.some(
    ({ additional }) => additional !== undefined && additional.schema !== false,
  );
  const allowsUnnamed = allowsAdditional || (isOpen && !declaresProperties);
  const patterns = new Map(
    schemas.flatMap((schema) => schema.patterns.map((candidate) => [candidate.source, candidate] as const)),
  );
  if (patterns.size > maxPatterns) {
    const path = schemas.find((schema) => schema.patterns.length > 0)?.location.path ?? '';
    throw createUnsupportedError(path, 'patternProperties', `more than ${maxPatterns} patterns at a time`);
  }
  const allPatterns = [...patterns.values()];
  const options: Expression[] = [];
  for (let mask = allowsUnnamed ? 0 : 1; mask < 1 << allPatterns.length; mask++) {
    const matchedSources = new Set(
      allPatterns.filter((_, index) => (mask >> index) & 1).map(({ source }) => source),
    );
    const option = writeMatchingMember(context, schemas, names, allPatterns, matchedSources);
    if (option) options.push(option);
  }
  return options.length === 0 ? undefined : choice(...options);
}

const allowsUnevaluated = ({ schema }: SchemaLocation): boolean =>
  (schema as SchemaObject)['unevaluatedProperties'] !== false;

/** Writes a member whose name matches the patterns in `matchedSources` and no others. */
function writeMatchingMember(
  context: ObjectSchemaContext,
  schemas: readonly ObjectSchema[],
  names: ReadonlySet<string>,
  patterns: readonly ObjectSchema['patterns'][number][],
  matchedSources: ReadonlySet<string>,
): Expression | undefined {
  const { builder, value, document, normalizer } = context;
  const locations: SchemaLocation[] = [];
  for (const schema of schemas) {
    const partLocations = schema.patterns
      .filter(({ source }) => matchedSources.has(source))
      .map(({ location }) => location);
    if (partLocations.length === 0 && schema.additional) partLocations.push(schema.additional);
    locations.push(...partLocations);
  }
  if (locations.some(({ schema }) => schema === false)) return undefined;
  const nameSchemas = schemas.flatMap((schema) => (schema.propertyNames ? [schema.propertyNames] : []));
  const withValue = (name: Expression) => sequence(name, rule('colon'), value(locations));
  if (names.size === 0 && patterns.length === 0 && nameSchemas.length === 0) return withValue(rule('string'));
  let name = toAutomaton(repeat(set([[0, 0x10ffff]]), 0));
  for (const { source, automaton } of patterns)
    name = intersectAutomata(name, matchedSources.has(source) ? automaton : complementAutomaton(automaton));
  if (names.size > 0)
    name = intersectAutomata(name, complementAutomaton(toAutomaton(choice(...[...names].map(text)))));
  for (const location of nameSchemas)
    name = intersectAutomata(name, buildNameAutomaton(document, normalizer, location));
  if (acceptsNothing(name)) return undefined;
  const nameExpression = writeAutomaton(builder, name, text('"'), ({ set: characters }) =>
    toStringCharacter(characters),
  );
  return withValue(sequence(text('"'), nameExpression));
}

function buildNameAutomaton(
  document: SchemaDocument,
  normalizer: SchemaNormalizer,
  location: SchemaLocation,
): Automaton {
  const options = normalizer.toAlternatives([location]);
  const automata = options.flatMap((locations) => {
    const texts = locations.find((candidate) => enumeratedValuesOf(candidate));
    if (texts) {
      const values = (enumeratedValuesOf(texts) ?? []).filter(
        (value): value is string => typeof value === 'string' && matchesSchema(document, location, value),
      );
      return values.length === 0 ? [] : [toAutomaton(choice(...values.map(text)))];
    }
    const types = locations.map(allowedTypesOf).filter((candidate) => candidate !== undefined);
    return types.some((candidate) => !candidate.has('string'))
      ? []
      : [buildStringAutomaton(readStringConstraints(locations))];
  });
  if (automata.length === 0) return { edges: [[]], accepts: [false] };
  // The union, by De Morgan's law.
  return automata.length === 1
    ? (automata[0] as Automaton)
    : complementAutomaton(automata.map(complementAutomaton).reduce(intersectAutomata));
}

/** Writes the declared members in order, then additional members, then the closing brace. */
function writeMembers(
  { builder, value }: ObjectSchemaContext,
  properties: readonly Property[],
  additionalMember: Expression | undefined,
  { minProperties, maxProperties, path }: { minProperties: number; maxProperties: number; path: string },
): Expression {
  const end = sequence(rule('ws'), text('}'));
  // The member count only matters up to the bounds.
  const countLimit =
    maxProperties === Number.POSITIVE_INFINITY
      ? Math.max(1, minProperties)
      : Math.max(1, Math.min(maxProperties, properties.length));
  if (properties.length * (countLimit + 1) > maxStates)
    throw createUnsupportedError(
      path,
      'properties',
      `too many properties for 'minProperties' and 'maxProperties'`,
    );
  const members = properties.map(({ name, conjunction }) =>
    sequence(text(JSON.stringify(name)), rule('colon'), value(conjunction)),
  );
  const otherMember = additionalMember && rule(builder.add('member', additionalMember));
  const comma = rule('comma');
  const names = Array.from({ length: properties.length + 1 }, () =>
    Array.from({ length: countLimit + 1 }, () => builder.reserve('object')),
  );
  const ruleAt = (index: number, count: number) =>
    rule(names[index]?.[Math.min(count, countLimit)] as string);
  for (const [index, row] of names.entries()) {
    for (const [count, name] of row.entries()) {
      const property = properties[index];
      const separator = count > 0 ? comma : empty;
      if (property) {
        const member = members[index] as Expression;
        const withMember =
          count + 1 <= maxProperties ? sequence(separator, member, ruleAt(index + 1, count + 1)) : never;
        builder.define(name, property.required ? withMember : choice(withMember, ruleAt(index + 1, count)));
        continue;
      }
      const options: Expression[] = count >= minProperties ? [end] : [];
      // Additional members may have equal names, so only the first of them counts for the minimum.
      const remaining = maxProperties - count;
      if (otherMember && remaining >= 1 && count + 1 >= minProperties) {
        const furtherMembers = repeat(sequence(comma, otherMember), 0, remaining - 1);
        options.push(sequence(separator, otherMember, furtherMembers, end));
      }
      builder.define(name, choice(...options));
    }
  }
  return ruleAt(0, 0);
}
