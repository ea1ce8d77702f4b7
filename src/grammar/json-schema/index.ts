import { choice, type Expression, rule } from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import { SchemaNormalizer, type Conjunction } from './schema-normalizer.ts';
import { writeArray } from './array.ts';
import { type SchemaLocation, SchemaDocument, type SchemaObject } from './schema-document.ts';
import { matchesSchema } from './matches-schema.ts';
import { numberFormats } from './formats.ts';
import {
  boundsOf,
  sortedJson,
  type JsonType,
  jsonTypes,
  numberOf,
  jsonTypeOf,
  allowedTypesOf,
  enumeratedValuesOf,
} from './keywords.ts';
import { writeNumber } from './number.ts';
import { writeObject } from './object.ts';
import { appendPointer, createUnsupportedError } from './schema-errors.ts';
import { type StringConstraints, readStringConstraints, acceptsString, writeString } from './string.ts';
import { addJsonRules, valueLiteral } from './json-syntax.ts';

const maxValues = 5000;

/**
 * Adds rules for JSON texts that match a schema. They may allow only some of the valid texts, but never an invalid one.
 * @returns the name of the root rule
 * @throws GrammarError `unsupported_schema` for keywords that cannot be enforced, with their path
 */
export function addJsonSchema(builder: GrammarBuilder, schema: unknown): string {
  addJsonRules(builder);
  return new SchemaTranslator(builder, new SchemaDocument(schema)).write();
}

/** Adds rules for any JSON object, and returns the name of the root rule. */
export function addJsonObject(builder: GrammarBuilder): string {
  addJsonRules(builder);
  return 'object';
}

class SchemaTranslator {
  readonly #builder: GrammarBuilder;
  readonly #document: SchemaDocument;
  readonly #normalizer: SchemaNormalizer;
  readonly #names = new Map<string, string>();
  readonly #pending: { name: string; conjunction: Conjunction }[] = [];

  constructor(builder: GrammarBuilder, document: SchemaDocument) {
    this.#builder = builder;
    this.#document = document;
    this.#normalizer = new SchemaNormalizer(document);
  }

  write(): string {
    const root = this.#ruleNameFor([this.#document.root]);
    for (let next = this.#pending.pop(); next; next = this.#pending.pop()) {
      this.#builder.define(next.name, this.#write(next.conjunction));
    }
    return root;
  }

  #ruleNameFor(conjunction: Conjunction): string {
    if (conjunction.every(({ schema }) => schema === true || isUnconstrained(schema))) return 'value';
    const key = this.#normalizer.keyOf(conjunction);
    const existing = this.#names.get(key);
    if (existing !== undefined) return existing;
    const name = this.#builder.reserve('schema');
    this.#names.set(key, name);
    this.#pending.push({ name, conjunction });
    return name;
  }

  readonly #value = (conjunction: Conjunction): Expression => rule(this.#ruleNameFor(conjunction));

  #write(conjunction: Conjunction): Expression {
    const values = this.#values(conjunction);
    if (values) return choice(...values.map(valueLiteral));
    const expressions = new Map<string, Expression>();
    const stringConstraints = new Map<string, StringConstraints>();
    const namedValues = this.#normalizer.toAlternatives(conjunction).flatMap((locations) => {
      const enumerated = this.#enumerateValues(locations, conjunction);
      if (!enumerated) this.#writeTypes(locations, conjunction, expressions, stringConstraints);
      return enumerated ?? [];
    });
    // When one quote may start several kinds of strings, it is unknown which length applies.
    let isOnlyString = stringConstraints.size === 1;
    for (const value of namedValues) {
      if (typeof value === 'string') {
        if ([...stringConstraints.values()].some((one) => acceptsString(one, value))) continue;
        isOnlyString = false;
      }
      expressions.set(`value ${sortedJson(value)}`, valueLiteral(value));
    }
    for (const [key, constraints] of stringConstraints) {
      const expression = writeString(this.#builder, constraints, isOnlyString);
      if (expression) expressions.set(key, expression);
    }
    return choice(...expressions.values());
  }

  /** All matching values when the schemas enumerate them; otherwise undefined. */
  readonly #values = (conjunction: Conjunction): readonly unknown[] | undefined => {
    const namedValues = this.#enumerateValues(conjunction, conjunction);
    if (namedValues) return namedValues;
    const alternatives = this.#normalizer.toAlternatives(conjunction);
    const lists = alternatives.map(
      (locations) =>
        this.#enumerateValues(locations, conjunction) ??
        valuesOfSmallTypes(locations, this.#document, conjunction),
    );
    return lists.every((list) => list !== undefined) ? lists.flat() : undefined;
  };

  #enumerateValues(locations: Conjunction, conjunction: Conjunction): readonly unknown[] | undefined {
    const lists = locations.flatMap((location) =>
      typeof location.schema === 'boolean' ? [] : [{ location, values: enumeratedValuesOf(location) }],
    );
    const shortest = lists
      .filter(
        (one): one is { location: SchemaLocation; values: readonly unknown[] } => one.values !== undefined,
      )
      .sort((a, b) => a.values.length - b.values.length)[0];
    if (!shortest) return undefined;
    if (shortest.values.length > maxValues)
      throw createUnsupportedError(shortest.location.path, 'enum', `more than ${maxValues} values`);
    return shortest.values.filter((value) =>
      conjunction.every((location) => matchesSchema(this.#document, location, value)),
    );
  }

  /** Writes all types but strings, whose constraints are only collected: how they are written depends on the others. */
  #writeTypes(
    locations: Conjunction,
    conjunction: Conjunction,
    expressions: Map<string, Expression>,
    stringConstraints: Map<string, StringConstraints>,
  ): void {
    for (const type of jsonTypes) {
      const allowed = locations.map(allowedTypesOf).filter((types) => types !== undefined);
      const onlyIntegers = type === 'number' && allowed.some((types) => !types.has('number'));
      if (!allowed.every((types) => types.has(type) || (type === 'number' && types.has('integer')))) continue;
      const relevantLocations = locations.filter(({ schema }) =>
        constrainsType(schema as SchemaObject, type),
      );
      const key = `${type} ${onlyIntegers} ${this.#normalizer.keyOf(relevantLocations)}`;
      if (type === 'string' && !stringConstraints.has(key))
        stringConstraints.set(key, readStringConstraints(relevantLocations));
      if (type === 'string' || expressions.has(key)) continue;
      const expression = this.#writeType(type, relevantLocations, onlyIntegers, conjunction);
      if (expression) expressions.set(key, expression);
    }
  }

  #writeType(
    type: Exclude<JsonType, 'string'>,
    locations: Conjunction,
    onlyIntegers: boolean,
    conjunction: Conjunction,
  ): Expression | undefined {
    const context = {
      document: this.#document,
      normalizer: this.#normalizer,
      builder: this.#builder,
      value: this.#value,
      values: this.#values,
    };
    switch (type) {
      case 'object':
        rejectExcludedValues(locations, type);
        return locations.length === 0 ? rule('object') : writeObject(context, locations, conjunction);
      case 'array':
        rejectExcludedValues(locations, type);
        return locations.length === 0 ? rule('array') : writeArray(context, locations);
      case 'number':
        return this.#writeNumber(locations, onlyIntegers);
      case 'boolean':
      case 'null': {
        const left = (type === 'null' ? [null] : [true, false]).filter(
          (value) => !isExcluded(locations, value),
        );
        return left.length === 0 ? undefined : choice(...left.map(valueLiteral));
      }
    }
  }

  #writeNumber(locations: Conjunction, onlyIntegers: boolean): Expression | undefined {
    const formats = locations.flatMap(({ schema }) => {
      const format = (schema as SchemaObject)['format'];
      const numberFormat =
        typeof format === 'string' && Object.hasOwn(numberFormats, format)
          ? numberFormats[format]
          : undefined;
      return numberFormat ? [numberFormat] : [];
    });
    const minimums = locations.flatMap((location) => boundsOf(location, 'least'));
    const maximums = locations.flatMap((location) => boundsOf(location, 'most'));
    for (const format of formats) {
      if (format.min !== undefined) minimums.push({ value: format.min, isInclusive: true, path: '' });
      if (format.max !== undefined) maximums.push({ value: format.max, isInclusive: true, path: '' });
    }
    const factors = locations.flatMap((location) => numberOf(location, 'multipleOf') ?? []);
    const excluded = locations
      .flatMap((location) => excludedValues(location))
      .filter((value) => typeof value === 'number');
    const findTightest = <T extends { value: number; isInclusive: boolean }>(bounds: T[], sign: 1 | -1) =>
      bounds.sort((a, b) => sign * (b.value - a.value) || Number(a.isInclusive) - Number(b.isInclusive))[0];
    return writeNumber(
      this.#builder,
      {
        isInteger: onlyIntegers || formats.some((format) => format.isInteger),
        min: findTightest(minimums, 1),
        max: findTightest(maximums, -1),
        factors,
        excluded,
      },
      locations[0]?.path ?? '',
    );
  }
}

const isUnconstrained = (schema: unknown): boolean =>
  schema !== null &&
  typeof schema === 'object' &&
  Object.keys(schema).every((keyword) => annotationKeywords.has(keyword));

/** Keywords that do not constrain values. */
const annotationKeywords = new Set([
  '$comment',
  '$defs',
  '$id',
  '$schema',
  'default',
  'definitions',
  'deprecated',
  'description',
  'examples',
  'readOnly',
  'title',
  'writeOnly',
]);

/** Values that `not` excludes. */
const excludedValues = ({ schema, path }: SchemaLocation): readonly unknown[] => {
  const negated = (schema as SchemaObject)['not'];
  if (negated === null || typeof negated !== 'object') return [];
  return enumeratedValuesOf({ schema: negated as SchemaObject, path: appendPointer(path, 'not') }) ?? [];
};

const isExcluded = (locations: Conjunction, value: unknown): boolean =>
  locations.some((location) => excludedValues(location).some((one) => sortedJson(one) === sortedJson(value)));

/** A grammar cannot exclude a single object or array. */
function rejectExcludedValues(locations: Conjunction, type: JsonType): void {
  for (const location of locations) {
    if (!excludedValues(location).some((value) => jsonTypeOf(value) === type)) continue;
    throw createUnsupportedError(
      appendPointer(location.path, 'not'),
      'not',
      `a grammar cannot exclude a single ${type}`,
    );
  }
}

const keywords: Readonly<Record<JsonType, readonly string[]>> = {
  object: [
    'additionalProperties',
    'maxProperties',
    'not',
    'minProperties',
    'patternProperties',
    'properties',
    'propertyNames',
    'required',
    'unevaluatedProperties',
  ],
  array: [
    'additionalItems',
    'contains',
    'not',
    'items',
    'maxItems',
    'minItems',
    'prefixItems',
    'unevaluatedItems',
    'uniqueItems',
  ],
  string: ['format', 'maxLength', 'minLength', 'not', 'pattern'],
  number: ['exclusiveMaximum', 'exclusiveMinimum', 'format', 'maximum', 'minimum', 'multipleOf', 'not'],
  boolean: ['not'],
  null: ['not'],
};

const constrainsType = (schema: SchemaObject, type: JsonType): boolean =>
  typeof schema !== 'boolean' && keywords[type].some((keyword) => schema[keyword] !== undefined);

/** All values when only null and booleans are allowed; otherwise undefined. */
function valuesOfSmallTypes(
  locations: Conjunction,
  document: SchemaDocument,
  conjunction: Conjunction,
): readonly unknown[] | undefined {
  const types = locations.map(allowedTypesOf).filter((one) => one !== undefined);
  if (types.length === 0) return undefined;
  const left = jsonTypes.filter((type) =>
    types.every((one) => one.has(type) || (type === 'number' && one.has('integer'))),
  );
  if (left.some((type) => type !== 'boolean' && type !== 'null')) return undefined;
  return [null, true, false].filter((value) =>
    conjunction.every((location) => matchesSchema(document, location, value)),
  );
}
