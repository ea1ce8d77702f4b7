import { addCountedItems } from '../ebnf/counted-items.ts';
import { choice, empty, type Expression, never, repeat, rule, sequence } from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import type { Conjunction } from './schema-normalizer.ts';
import type { SchemaLocation, SchemaObject } from './schema-document.ts';
import { sortedJson, countOf, locationOf, locationsOf } from './keywords.ts';
import { createUnsupportedError } from './schema-errors.ts';
import { arrayBrackets, arrayEnd, valueLiteral, arrayStart } from './json-syntax.ts';

const maxItems = 10_000;

export interface ArraySchemaContext {
  readonly builder: GrammarBuilder;
  /** Returns the expression of a value that matches all schemas. */
  readonly value: (need: Conjunction) => Expression;
  /** Returns all matching values when they are enumerated; otherwise undefined. */
  readonly values: (need: Conjunction) => readonly unknown[] | undefined;
}

/** @returns undefined when no array matches */
export function writeArray(
  context: ArraySchemaContext,
  locations: readonly SchemaLocation[],
): Expression | undefined {
  const lists = locations.map(readItemSchemas);
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const itemAt = (index: number): Conjunction =>
    lists.flatMap((list) => {
      const one = list.prefix[index] ?? list.rest;
      return one ? [one] : [];
    });
  const minCount = Math.max(0, ...locations.map((location) => countOf(location, 'minItems') ?? 0));
  const declaredMax = Math.min(
    ...locations.map((location) => countOf(location, 'maxItems') ?? Number.POSITIVE_INFINITY),
  );
  if (minCount > maxItems)
    throw createUnsupportedError(locations[0]?.path ?? '', 'minItems', `more than ${maxItems} items`);
  const maxCount =
    declaredMax === Number.POSITIVE_INFINITY
      ? declaredMax
      : Math.max(minCount, Math.min(declaredMax, maxItems));
  if (declaredMax < minCount) return undefined;
  const requiredItems = readContains(locations);
  const uniqueLocation = locations.find(
    (location) => (location.schema as SchemaObject)['uniqueItems'] === true,
  );
  if (uniqueLocation && maxCount > 1) {
    if (length > 0 || requiredItems.length > 0) throw createUniqueItemsError(uniqueLocation);
    return writeUniqueItems(context, itemAt(0), minCount, maxCount, uniqueLocation);
  }
  return sequence(arrayStart, writeList(context, { itemAt, length, minCount, maxCount, requiredItems }));
}

const createUniqueItemsError = (location: SchemaLocation) =>
  createUnsupportedError(
    location.path,
    'uniqueItems',
    "a grammar cannot compare items; list the values with 'enum', or remove it and check the answer",
  );

/** The schemas of items: those of the first items, and the one of all others. */
function readItemSchemas(location: SchemaLocation): {
  prefix: SchemaLocation[];
  rest: SchemaLocation | undefined;
} {
  const schema = location.schema as SchemaObject;
  const usesLegacyItems = Array.isArray(schema['items']);
  const unevaluated = schema['unevaluatedItems'];
  if (unevaluated !== undefined && unevaluated !== true)
    throw createUnsupportedError(location.path, 'unevaluatedItems', "use 'items' or 'maxItems'");
  return {
    prefix: locationsOf(location, usesLegacyItems ? 'items' : 'prefixItems'),
    rest: locationOf(location, usesLegacyItems ? 'additionalItems' : 'items'),
  };
}

/** For each `contains`: the schema and how many items must match it. */
function readContains(locations: readonly SchemaLocation[]): { location: SchemaLocation; count: number }[] {
  return locations.flatMap((outer) => {
    const location = locationOf(outer, 'contains');
    if (!location) return [];
    if (countOf(outer, 'maxContains') !== undefined)
      throw createUnsupportedError(outer.path, 'maxContains', 'a grammar cannot count matching items');
    const count = countOf(outer, 'minContains') ?? 1;
    if (count > 100) throw createUnsupportedError(outer.path, 'minContains', 'more than 100 items');
    return count === 0 ? [] : [{ location, count }];
  });
}

interface ListConstraints {
  readonly itemAt: (index: number) => Conjunction;
  /** Number of items with individual schemas. */
  readonly length: number;
  readonly minCount: number;
  readonly maxCount: number;
  readonly requiredItems: readonly { location: SchemaLocation; count: number }[];
}

const comma = rule('comma');

function writeList(
  { builder, value }: ArraySchemaContext,
  { itemAt, length, minCount, maxCount, requiredItems }: ListConstraints,
): Expression {
  const [firstRequired] = requiredItems;
  const anyItem = value(itemAt(length));
  if (
    firstRequired?.count === 1 &&
    requiredItems.length === 1 &&
    length === 0 &&
    minCount <= 1 &&
    maxCount === Number.POSITIVE_INFINITY
  ) {
    const containedItem = value([...itemAt(0), firstRequired.location]);
    return sequence(
      repeat(sequence(anyItem, comma), 0),
      containedItem,
      repeat(sequence(comma, anyItem), 0),
      arrayEnd,
    );
  }
  // Require the first items to match `contains`. This allows fewer arrays, but all of them are valid.
  const prefixLength = Math.max(length, ...requiredItems.map(({ count }) => count));
  const requiredCount = Math.max(minCount, ...requiredItems.map(({ count }) => count));
  if (requiredCount > maxCount) return never;
  let expression = writeRest(builder, anyItem, prefixLength, minCount, maxCount);
  for (let index = Math.min(prefixLength, maxCount) - 1; index >= 0; index--) {
    const containsSchemas = requiredItems
      .filter(({ count }) => index < count)
      .map(({ location }) => location);
    const item = value([...itemAt(index), ...containsSchemas]);
    const withItem = sequence(index > 0 ? comma : empty, item, rule(builder.add('items', expression)));
    expression = index < requiredCount ? withItem : choice(withItem, arrayEnd);
  }
  return expression;
}

/** Writes what may follow after `itemCount` items, and the end. */
function writeRest(
  builder: GrammarBuilder,
  item: Expression,
  itemCount: number,
  minCount: number,
  maxCount: number,
): Expression {
  if (itemCount >= maxCount) return arrayEnd;
  const [min, max] = [Math.max(0, minCount - itemCount), maxCount - itemCount];
  if (itemCount > 0) return writeFurtherItems(builder, item, min, max);
  const list = sequence(item, writeFurtherItems(builder, item, Math.max(0, min - 1), max - 1));
  return min === 0 ? choice(list, arrayEnd) : list;
}

function writeFurtherItems(builder: GrammarBuilder, item: Expression, min: number, max: number): Expression {
  const next = sequence(comma, item);
  if (max !== Number.POSITIVE_INFINITY) return addCountedItems(builder, next, min, max, arrayEnd);
  const anyItem = sequence(repeat(next, 0), arrayEnd);
  return min === 0 ? anyItem : addCountedItems(builder, next, min, min, anyItem);
}

/** Writes distinct items from a list of values, in the order of the list. */
function writeUniqueItems(
  { builder, values: listValues }: ArraySchemaContext,
  item: Conjunction,
  minCount: number,
  maxCount: number,
  uniqueLocation: SchemaLocation,
): Expression | undefined {
  if (minCount === 0 && maxCount === 0) return arrayBrackets(empty);
  const values = listValues(item);
  if (!values || values.length > 500) throw createUniqueItemsError(uniqueLocation);
  const distinctValues = [...new Map(values.map((one) => [sortedJson(one), one])).values()];
  const names = new Map<string, string>();
  const writeFrom = (index: number, count: number): Expression => {
    const isComplete = count >= minCount;
    if (index === distinctValues.length || count === maxCount) return isComplete ? empty : never;
    // Without an upper bound, it only needs to count up to the minimum.
    const countKey = maxCount === Number.POSITIVE_INFINITY ? Math.min(count, Math.max(1, minCount)) : count;
    const key = `${index} ${countKey}`;
    const existing = names.get(key);
    if (existing !== undefined) return rule(existing);
    const name = builder.reserve('set');
    names.set(key, name);
    const withValue = sequence(
      countKey > 0 ? comma : empty,
      valueLiteral(distinctValues[index]),
      writeFrom(index + 1, countKey + 1),
    );
    builder.define(name, choice(withValue, writeFrom(index + 1, countKey)));
    return rule(name);
  };
  return arrayBrackets(writeFrom(0, 0));
}
