import { counted } from '../ebnf/counted.ts';
import { choice, empty, type Expression, nothing, repeat, rule, sequence } from '../ebnf/expression.ts';
import type { Rules } from '../ebnf/rules.ts';
import type { Need } from './alternatives.ts';
import type { Place, SchemaObject } from './document.ts';
import { canonical, countOf, placeOf, placesOf } from './keywords.ts';
import { unsupported } from './refusal.ts';
import { brackets, closeList, literal, openList } from './text.ts';

const mostItems = 10_000;

export interface ArrayWriter {
  readonly rules: Rules;
  /** Returns the expression of a value that matches all schemas. */
  readonly value: (need: Need) => Expression;
  /** Returns all matching values when they are enumerated; otherwise undefined. */
  readonly values: (need: Need) => readonly unknown[] | undefined;
}

/** @returns undefined when no array matches */
export function writeArray(writer: ArrayWriter, places: readonly Place[]): Expression | undefined {
  const lists = places.map(items);
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const itemAt = (index: number): Need =>
    lists.flatMap((list) => {
      const one = list.prefix[index] ?? list.rest;
      return one ? [one] : [];
    });
  const least = Math.max(0, ...places.map((place) => countOf(place, 'minItems') ?? 0));
  const given = Math.min(...places.map((place) => countOf(place, 'maxItems') ?? Number.POSITIVE_INFINITY));
  if (least > mostItems) throw unsupported(places[0]?.path ?? '', 'minItems', `more than ${mostItems} items`);
  const most = given === Number.POSITIVE_INFINITY ? given : Math.max(least, Math.min(given, mostItems));
  if (given < least) return undefined;
  const wanted = contained(places);
  const unique = places.find((place) => (place.schema as SchemaObject)['uniqueItems'] === true);
  if (unique && most > 1) {
    if (length > 0 || wanted.length > 0) throw uniqueness(unique);
    return writeSet(writer, itemAt(0), least, most, unique);
  }
  return sequence(openList, writeList(writer, { itemAt, length, least, most, wanted }));
}

const uniqueness = (place: Place) =>
  unsupported(
    place.path,
    'uniqueItems',
    "a grammar cannot compare items; list the values with 'enum', or remove it and check the answer",
  );

/** The schemas of items: those of the first items, and the one of all others. */
function items(place: Place): { prefix: Place[]; rest: Place | undefined } {
  const schema = place.schema as SchemaObject;
  const old = Array.isArray(schema['items']);
  const unevaluated = schema['unevaluatedItems'];
  if (unevaluated !== undefined && unevaluated !== true)
    throw unsupported(place.path, 'unevaluatedItems', "use 'items' or 'maxItems'");
  return {
    prefix: placesOf(place, old ? 'items' : 'prefixItems'),
    rest: placeOf(place, old ? 'additionalItems' : 'items'),
  };
}

/** For each `contains`: the schema and how many items must match it. */
function contained(places: readonly Place[]): { place: Place; count: number }[] {
  return places.flatMap((outer) => {
    const place = placeOf(outer, 'contains');
    if (!place) return [];
    if (countOf(outer, 'maxContains') !== undefined)
      throw unsupported(outer.path, 'maxContains', 'a grammar cannot count matching items');
    const count = countOf(outer, 'minContains') ?? 1;
    if (count > 100) throw unsupported(outer.path, 'minContains', 'more than 100 items');
    return count === 0 ? [] : [{ place, count }];
  });
}

interface List {
  readonly itemAt: (index: number) => Need;
  /** Number of items with individual schemas. */
  readonly length: number;
  readonly least: number;
  readonly most: number;
  readonly wanted: readonly { place: Place; count: number }[];
}

const comma = rule('comma');

function writeList({ rules, value }: ArrayWriter, { itemAt, length, least, most, wanted }: List): Expression {
  const [only] = wanted;
  const any = value(itemAt(length));
  if (
    only?.count === 1 &&
    wanted.length === 1 &&
    length === 0 &&
    least <= 1 &&
    most === Number.POSITIVE_INFINITY
  ) {
    const found = value([...itemAt(0), only.place]);
    return sequence(repeat(sequence(any, comma), 0), found, repeat(sequence(comma, any), 0), closeList);
  }
  // Require the first items to match `contains`. This allows fewer arrays, but all of them are valid.
  const front = Math.max(length, ...wanted.map(({ count }) => count));
  const needed = Math.max(least, ...wanted.map(({ count }) => count));
  if (needed > most) return nothing;
  let written = rest(rules, any, front, least, most);
  for (let index = Math.min(front, most) - 1; index >= 0; index--) {
    const also = wanted.filter(({ count }) => index < count).map(({ place }) => place);
    const item = value([...itemAt(index), ...also]);
    const here = sequence(index > 0 ? comma : empty, item, rule(rules.add('items', written)));
    written = index < needed ? here : choice(here, closeList);
  }
  return written;
}

/** Writes what may follow after `itemCount` items, and the end. */
function rest(rules: Rules, item: Expression, before: number, least: number, most: number): Expression {
  if (before >= most) return closeList;
  const [min, max] = [Math.max(0, least - before), most - before];
  if (before > 0) return further(rules, item, min, max);
  const list = sequence(item, further(rules, item, Math.max(0, min - 1), max - 1));
  return min === 0 ? choice(list, closeList) : list;
}

function further(rules: Rules, item: Expression, min: number, max: number): Expression {
  const next = sequence(comma, item);
  if (max !== Number.POSITIVE_INFINITY) return counted(rules, next, min, max, closeList);
  const any = sequence(repeat(next, 0), closeList);
  return min === 0 ? any : counted(rules, next, min, min, any);
}

/** Writes distinct items from a list of values, in the order of the list. */
function writeSet(
  { rules, values }: ArrayWriter,
  item: Need,
  least: number,
  most: number,
  unique: Place,
): Expression | undefined {
  if (least === 0 && most === 0) return brackets(empty);
  const all = values(item);
  if (!all || all.length > 500) throw uniqueness(unique);
  const different = [...new Map(all.map((one) => [canonical(one), one])).values()];
  const names = new Map<string, string>();
  const from = (index: number, count: number): Expression => {
    const enough = count >= least;
    if (index === different.length || count === most) return enough ? empty : nothing;
    // Without an upper bound, it only needs to count up to the minimum.
    const here = most === Number.POSITIVE_INFINITY ? Math.min(count, Math.max(1, least)) : count;
    const key = `${index} ${here}`;
    const known = names.get(key);
    if (known !== undefined) return rule(known);
    const name = rules.reserve('set');
    names.set(key, name);
    const taken = sequence(here > 0 ? comma : empty, literal(different[index]), from(index + 1, here + 1));
    rules.define(name, choice(taken, from(index + 1, here)));
    return rule(name);
  };
  return brackets(from(0, 0));
}
