import { choice, type Expression, rule } from '../ebnf/expression.ts';
import type { Rules } from '../ebnf/rules.ts';
import { Alternatives, type Need } from './alternatives.ts';
import { writeArray } from './array.ts';
import { type Place, SchemaDocument, type SchemaObject } from './document.ts';
import { holds } from './evaluate.ts';
import { numberFormats } from './formats.ts';
import {
  boundsOf,
  canonical,
  type JsonType,
  jsonTypes,
  numberOf,
  typeOf,
  typesOf,
  valuesOf,
} from './keywords.ts';
import { writeNumber } from './number.ts';
import { writeObject } from './object.ts';
import { pointer, unsupported } from './refusal.ts';
import { type TextNeed, textNeed, writesText, writeText } from './string.ts';
import { addJsonRules, literal } from './text.ts';

const mostValues = 5000;

/**
 * Adds rules for JSON texts that match a schema. They may allow only some of the valid texts, but never an invalid one.
 * @returns the name of the root rule
 * @throws GrammarError `unsupported_schema` for keywords that cannot be enforced, with their path
 */
export function addJsonSchema(rules: Rules, schema: unknown): string {
  addJsonRules(rules);
  return new SchemaWriter(rules, new SchemaDocument(schema)).write();
}

/** Adds rules for any JSON object, and returns the name of the root rule. */
export function addJsonObject(rules: Rules): string {
  addJsonRules(rules);
  return 'object';
}

class SchemaWriter {
  readonly #rules: Rules;
  readonly #document: SchemaDocument;
  readonly #alternatives: Alternatives;
  readonly #names = new Map<string, string>();
  readonly #pending: { name: string; need: Need }[] = [];

  constructor(rules: Rules, document: SchemaDocument) {
    this.#rules = rules;
    this.#document = document;
    this.#alternatives = new Alternatives(document);
  }

  write(): string {
    const root = this.#ruleOf([this.#document.root]);
    for (let next = this.#pending.pop(); next; next = this.#pending.pop()) {
      this.#rules.define(next.name, this.#write(next.need));
    }
    return root;
  }

  #ruleOf(need: Need): string {
    if (need.every(({ schema }) => schema === true || isFree(schema))) return 'value';
    const key = this.#alternatives.keyOf(need);
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const name = this.#rules.reserve('schema');
    this.#names.set(key, name);
    this.#pending.push({ name, need });
    return name;
  }

  readonly #value = (need: Need): Expression => rule(this.#ruleOf(need));

  #write(need: Need): Expression {
    const values = this.#values(need);
    if (values) return choice(...values.map(literal));
    const written = new Map<string, Expression>();
    const texts = new Map<string, TextNeed>();
    const named = this.#alternatives.of(need).flatMap((places) => {
      const given = this.#given(places, need);
      if (!given) this.#writeTypes(places, need, written, texts);
      return given ?? [];
    });
    // When one quote may start several kinds of strings, it is unknown which length applies.
    let certain = texts.size === 1;
    for (const value of named) {
      if (typeof value === 'string') {
        if ([...texts.values()].some((one) => writesText(one, value))) continue;
        certain = false;
      }
      written.set(`value ${canonical(value)}`, literal(value));
    }
    for (const [key, text] of texts) {
      const expression = writeText(this.#rules, text, certain);
      if (expression) written.set(key, expression);
    }
    return choice(...written.values());
  }

  /** All matching values when the schemas enumerate them; otherwise undefined. */
  readonly #values = (need: Need): readonly unknown[] | undefined => {
    const named = this.#given(need, need);
    if (named) return named;
    const alternatives = this.#alternatives.of(need);
    const lists = alternatives.map(
      (places) => this.#given(places, need) ?? small(places, this.#document, need),
    );
    return lists.every((list) => list !== undefined) ? lists.flat() : undefined;
  };

  #given(places: Need, need: Need): readonly unknown[] | undefined {
    const lists = places.flatMap((place) =>
      typeof place.schema === 'boolean' ? [] : [{ place, values: valuesOf(place) }],
    );
    const shortest = lists
      .filter((one): one is { place: Place; values: readonly unknown[] } => one.values !== undefined)
      .sort((a, b) => a.values.length - b.values.length)[0];
    if (!shortest) return undefined;
    if (shortest.values.length > mostValues)
      throw unsupported(shortest.place.path, 'enum', `more than ${mostValues} values`);
    return shortest.values.filter((value) => need.every((place) => holds(this.#document, place, value)));
  }

  /** Writes all types but strings, whose constraints are only collected: how they are written depends on the others. */
  #writeTypes(
    places: Need,
    need: Need,
    written: Map<string, Expression>,
    texts: Map<string, TextNeed>,
  ): void {
    for (const type of jsonTypes) {
      const allowed = places.map(typesOf).filter((types) => types !== undefined);
      const whole = type === 'number' && allowed.some((types) => !types.has('number'));
      if (!allowed.every((types) => types.has(type) || (type === 'number' && types.has('integer')))) continue;
      const said = places.filter(({ schema }) => speaksOf(schema as SchemaObject, type));
      const key = `${type} ${whole} ${this.#alternatives.keyOf(said)}`;
      if (type === 'string' && !texts.has(key)) texts.set(key, textNeed(said));
      if (type === 'string' || written.has(key)) continue;
      const expression = this.#writeType(type, said, whole, need);
      if (expression) written.set(key, expression);
    }
  }

  #writeType(
    type: Exclude<JsonType, 'string'>,
    places: Need,
    whole: boolean,
    need: Need,
  ): Expression | undefined {
    const writer = {
      document: this.#document,
      alternatives: this.#alternatives,
      rules: this.#rules,
      value: this.#value,
      values: this.#values,
    };
    switch (type) {
      case 'object':
        refuseExcluded(places, type);
        return places.length === 0 ? rule('object') : writeObject(writer, places, need);
      case 'array':
        refuseExcluded(places, type);
        return places.length === 0 ? rule('array') : writeArray(writer, places);
      case 'number':
        return this.#writeNumber(places, whole);
      case 'boolean':
      case 'null': {
        const left = (type === 'null' ? [null] : [true, false]).filter((value) => !isExcluded(places, value));
        return left.length === 0 ? undefined : choice(...left.map(literal));
      }
    }
  }

  #writeNumber(places: Need, integer: boolean): Expression | undefined {
    const formats = places.flatMap(({ schema }) => {
      const format = (schema as SchemaObject)['format'];
      const known =
        typeof format === 'string' && Object.hasOwn(numberFormats, format)
          ? numberFormats[format]
          : undefined;
      return known ? [known] : [];
    });
    const least = places.flatMap((place) => boundsOf(place, 'least'));
    const most = places.flatMap((place) => boundsOf(place, 'most'));
    for (const format of formats) {
      if (format.least !== undefined) least.push({ value: format.least, included: true, path: '' });
      if (format.most !== undefined) most.push({ value: format.most, included: true, path: '' });
    }
    const factors = places.flatMap((place) => numberOf(place, 'multipleOf') ?? []);
    const excluded = places
      .flatMap((place) => excludedValues(place))
      .filter((value) => typeof value === 'number');
    const tightest = <T extends { value: number; included: boolean }>(bounds: T[], sign: 1 | -1) =>
      bounds.sort((a, b) => sign * (b.value - a.value) || Number(a.included) - Number(b.included))[0];
    return writeNumber(
      this.#rules,
      {
        whole: integer || formats.some((format) => format.whole),
        least: tightest(least, 1),
        most: tightest(most, -1),
        factors,
        excluded,
      },
      places[0]?.path ?? '',
    );
  }
}

const isFree = (schema: unknown): boolean =>
  schema !== null && typeof schema === 'object' && Object.keys(schema).every((keyword) => notes.has(keyword));

/** Keywords that do not constrain values. */
const notes = new Set([
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
const excludedValues = ({ schema, path }: Place): readonly unknown[] => {
  const negated = (schema as SchemaObject)['not'];
  if (negated === null || typeof negated !== 'object') return [];
  return valuesOf({ schema: negated as SchemaObject, path: pointer(path, 'not') }) ?? [];
};

const isExcluded = (places: Need, value: unknown): boolean =>
  places.some((place) => excludedValues(place).some((one) => canonical(one) === canonical(value)));

/** A grammar cannot exclude a single object or array. */
function refuseExcluded(places: Need, type: JsonType): void {
  for (const place of places) {
    if (!excludedValues(place).some((value) => typeOf(value) === type)) continue;
    throw unsupported(pointer(place.path, 'not'), 'not', `a grammar cannot exclude a single ${type}`);
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

const speaksOf = (schema: SchemaObject, type: JsonType): boolean =>
  typeof schema !== 'boolean' && keywords[type].some((keyword) => schema[keyword] !== undefined);

/** All values when only null and booleans are allowed; otherwise undefined. */
function small(places: Need, document: SchemaDocument, need: Need): readonly unknown[] | undefined {
  const types = places.map(typesOf).filter((one) => one !== undefined);
  if (types.length === 0) return undefined;
  const left = jsonTypes.filter((type) =>
    types.every((one) => one.has(type) || (type === 'number' && one.has('integer'))),
  );
  if (left.some((type) => type !== 'boolean' && type !== 'null')) return undefined;
  return [null, true, false].filter((value) => need.every((place) => holds(document, place, value)));
}
