import { isRecord } from '../../util/json.ts';
import {
  choice,
  empty,
  type Expression,
  nothing,
  repeat,
  rule,
  sequence,
  set,
  text,
} from '../ebnf/expression.ts';
import type { Rules } from '../ebnf/rules.ts';
import type { GrammarError } from '../types.ts';
import { type Automaton, both, isNever, matches, not, toAutomaton } from '../regex/automaton.ts';
import { writeAutomaton } from '../regex/write.ts';
import type { Alternatives, Need } from './alternatives.ts';
import type { Place, Schema, SchemaDocument, SchemaObject } from './document.ts';
import { holds } from './evaluate.ts';
import { countOf, membersOf, placeOf, textsOf, typesOf, valuesOf } from './keywords.ts';
import { malformed, pointer, unsupported } from './refusal.ts';
import { readPattern, textAutomaton, textNeed } from './string.ts';
import { inString } from './text.ts';

export interface ObjectWriter {
  readonly document: SchemaDocument;
  readonly alternatives: Alternatives;
  readonly rules: Rules;
  /** Returns the expression of a value that matches all schemas. */
  readonly value: (need: Need) => Expression;
}

/** One of the schemas that an object must match. */
interface Part {
  readonly place: Place;
  readonly properties: ReadonlyMap<string, Place>;
  readonly patterns: readonly { source: string; automaton: Automaton; place: Place }[];
  readonly additional: Place | undefined;
  readonly names: Place | undefined;
}

interface Property {
  readonly name: string;
  readonly need: Need;
  readonly required: boolean;
}

const mostPatterns = 4;
const mostStates = 10_000;

/** @returns undefined when no object matches */
export function writeObject(
  writer: ObjectWriter,
  places: readonly Place[],
  need: Need,
): Expression | undefined {
  const parts = places.map((place) => partOf(place));
  const closed = unevaluated(places, need);
  const required = new Set(places.flatMap((place) => textsOf(place, 'required')));
  const names = new Set([...parts.flatMap(({ properties }) => [...properties.keys()]), ...required]);
  const properties: Property[] = [];
  for (const name of names) {
    const needed = memberNeed(writer, parts, name);
    const known = !closed || closed.has(name);
    if (needed && known) properties.push({ name, need: needed, required: required.has(name) });
    else if (required.has(name)) {
      writer.rules.blame(impossible(places, name));
      return undefined;
    }
  }
  const least = Math.max(0, ...places.map((place) => countOf(place, 'minProperties') ?? 0));
  const most = Math.min(
    ...places.map((place) => countOf(place, 'maxProperties') ?? Number.POSITIVE_INFINITY),
  );
  if (least > most) return undefined;
  const further = closed ? undefined : furtherMembers(writer, parts, names);
  const path = places[0]?.path ?? '';
  const few = further && least > properties.length + 1;
  if (few)
    throw unsupported(
      path,
      'minProperties',
      'additional properties do not count reliably, because the model could write the same name twice',
    );
  return sequence(text('{'), rule('ws'), writeMembers(writer, properties, further, { least, most, path }));
}

/** The error of a required property that is not allowed. */
function impossible(places: readonly Place[], name: string): GrammarError {
  const path = places.find((place) => textsOf(place, 'required').includes(name))?.path ?? '';
  const known = places.some((place) => membersOf(place, 'properties').some(([one]) => one === name));
  const why = known
    ? 'which another keyword does not allow'
    : "which is not in 'properties', and no other properties are allowed; add it there or remove it here";
  const shown = JSON.stringify(name.slice(0, 100));
  return malformed(pointer(path, 'required'), `no value matches it: 'required' lists ${shown}, ${why}`);
}

function partOf(place: Place): Part {
  const { path } = place;
  return {
    place,
    properties: new Map(
      membersOf(place, 'properties').map(([name, schema]) => [
        name,
        { schema: schema as Schema, path: pointer(path, 'properties', name) },
      ]),
    ),
    patterns: membersOf(place, 'patternProperties').map(([source, schema]) => {
      const where = pointer(path, 'patternProperties', source);
      return {
        source,
        automaton: toAutomaton(readPattern(source, where, 'patternProperties')),
        place: { schema: schema as Schema, path: where },
      };
    }),
    additional: placeOf(place, 'additionalProperties'),
    names: placeOf(place, 'propertyNames'),
  };
}

/** The schemas that a named member must match; undefined when the member is not allowed. */
function memberNeed({ document }: ObjectWriter, parts: readonly Part[], name: string): Need | undefined {
  const found: Place[] = [];
  for (const { properties, patterns, additional, names } of parts) {
    if (names && !holds(document, names, name)) return undefined;
    const own = properties.get(name);
    const matched = patterns.filter(({ automaton }) => matches(automaton, name)).map(({ place }) => place);
    if (own) matched.push(own);
    if (matched.length === 0 && additional) matched.push(additional);
    found.push(...matched);
  }
  return found.some(({ schema }) => schema === false) ? undefined : found;
}

/** The evaluated property names for `unevaluatedProperties`; undefined when the keyword has no effect. */
function unevaluated(places: readonly Place[], need: Need): ReadonlySet<string> | undefined {
  const keyword = 'unevaluatedProperties';
  const found = places.find(({ schema }) => {
    const value = (schema as SchemaObject)[keyword];
    return value !== undefined && value !== true && !(isRecord(value) && Object.keys(value).length === 0);
  });
  if (!found) return undefined;
  const [only] = need;
  if ((found.schema as SchemaObject)[keyword] !== false)
    throw unsupported(found.path, keyword, "only 'false' can be enforced; use 'additionalProperties'");
  if (need.length !== 1 || only?.schema !== found.schema)
    throw unsupported(found.path, keyword, 'it is in a subschema; move it to the outermost schema');
  if (
    places.some(
      ({ schema }) =>
        (schema as SchemaObject)['not'] !== undefined || (schema as SchemaObject)['if'] !== undefined,
    )
  )
    throw unsupported(found.path, keyword, "in combination with 'not' or 'if'; use 'additionalProperties'");
  return new Set(places.flatMap((place) => membersOf(place, 'properties').map(([name]) => name)));
}

/** Writes a member whose name is not one of `names`; undefined when none is allowed. */
function furtherMembers(
  writer: ObjectWriter,
  parts: readonly Part[],
  names: ReadonlySet<string>,
): Expression | undefined {
  const open = parts.every(
    ({ place, properties, patterns, additional }) =>
      additional !== undefined || (properties.size === 0 && patterns.length === 0 && isOpen(place)),
  );
  // Without `additionalProperties`, objects with declared properties get no others. This allows fewer objects, all
  // valid.
  const declared = parts.some(({ properties }) => properties.size > 0);
  const explicit = parts.some(({ additional }) => additional !== undefined && additional.schema !== false);
  const free = explicit || (open && !declared);
  const patterns = new Map(parts.flatMap((part) => part.patterns.map((one) => [one.source, one] as const)));
  if (patterns.size > mostPatterns) {
    const path = parts.find((part) => part.patterns.length > 0)?.place.path ?? '';
    throw unsupported(path, 'patternProperties', `more than ${mostPatterns} patterns at a time`);
  }
  const all = [...patterns.values()];
  const options: Expression[] = [];
  for (let mask = free ? 0 : 1; mask < 1 << all.length; mask++) {
    const matched = new Set(all.filter((_, index) => (mask >> index) & 1).map(({ source }) => source));
    const option = memberOf(writer, parts, names, all, matched);
    if (option) options.push(option);
  }
  return options.length === 0 ? undefined : choice(...options);
}

const isOpen = ({ schema }: Place): boolean => (schema as SchemaObject)['unevaluatedProperties'] !== false;

/** Writes a member whose name matches the patterns in `matchedSources` and no others. */
function memberOf(
  writer: ObjectWriter,
  parts: readonly Part[],
  names: ReadonlySet<string>,
  patterns: readonly Part['patterns'][number][],
  matched: ReadonlySet<string>,
): Expression | undefined {
  const { rules, value, document, alternatives } = writer;
  const need: Place[] = [];
  for (const part of parts) {
    const own = part.patterns.filter(({ source }) => matched.has(source)).map(({ place }) => place);
    if (own.length === 0 && part.additional) own.push(part.additional);
    need.push(...own);
  }
  if (need.some(({ schema }) => schema === false)) return undefined;
  const rulesOfNames = parts.flatMap((part) => (part.names ? [part.names] : []));
  const after = (name: Expression) => sequence(name, rule('colon'), value(need));
  if (names.size === 0 && patterns.length === 0 && rulesOfNames.length === 0) return after(rule('string'));
  let name = toAutomaton(repeat(set([[0, 0x10ffff]]), 0));
  for (const { source, automaton } of patterns)
    name = both(name, matched.has(source) ? automaton : not(automaton));
  if (names.size > 0) name = both(name, not(toAutomaton(choice(...[...names].map(text)))));
  for (const place of rulesOfNames) name = both(name, nameAutomaton(document, alternatives, place));
  if (isNever(name)) return undefined;
  const written = writeAutomaton(rules, name, text('"'), ({ set: characters }) => inString(characters));
  return after(sequence(text('"'), written));
}

function nameAutomaton(document: SchemaDocument, alternatives: Alternatives, place: Place): Automaton {
  const options = alternatives.of([place]);
  const automata = options.flatMap((places) => {
    const texts = places.find((one) => valuesOf(one));
    if (texts) {
      const values = (valuesOf(texts) ?? []).filter(
        (value): value is string => typeof value === 'string' && holds(document, place, value),
      );
      return values.length === 0 ? [] : [toAutomaton(choice(...values.map(text)))];
    }
    const types = places.map(typesOf).filter((one) => one !== undefined);
    return types.some((one) => !one.has('string')) ? [] : [textAutomaton(textNeed(places))];
  });
  if (automata.length === 0) return { edges: [[]], accepts: [false] };
  // The union, by De Morgan's law.
  return automata.length === 1 ? (automata[0] as Automaton) : not(automata.map(not).reduce(both));
}

/** Writes the declared members in order, then additional members, then the closing brace. */
function writeMembers(
  { rules, value }: ObjectWriter,
  properties: readonly Property[],
  further: Expression | undefined,
  { least, most, path }: { least: number; most: number; path: string },
): Expression {
  const end = sequence(rule('ws'), text('}'));
  // The member count only matters up to the bounds.
  const cap =
    most === Number.POSITIVE_INFINITY ? Math.max(1, least) : Math.max(1, Math.min(most, properties.length));
  if (properties.length * (cap + 1) > mostStates)
    throw unsupported(path, 'properties', `too many properties for 'minProperties' and 'maxProperties'`);
  const members = properties.map(({ name, need }) =>
    sequence(text(JSON.stringify(name)), rule('colon'), value(need)),
  );
  const other = further && rule(rules.add('member', further));
  const comma = rule('comma');
  const names = Array.from({ length: properties.length + 1 }, () =>
    Array.from({ length: cap + 1 }, () => rules.reserve('object')),
  );
  const at = (index: number, count: number) => rule(names[index]?.[Math.min(count, cap)] as string);
  for (const [index, row] of names.entries()) {
    for (const [count, name] of row.entries()) {
      const property = properties[index];
      const before = count > 0 ? comma : empty;
      if (property) {
        const member = members[index] as Expression;
        const written = count + 1 <= most ? sequence(before, member, at(index + 1, count + 1)) : nothing;
        rules.define(name, property.required ? written : choice(written, at(index + 1, count)));
        continue;
      }
      const options: Expression[] = count >= least ? [end] : [];
      // Additional members may have equal names, so only the first of them counts for the minimum.
      const room = most - count;
      if (other && room >= 1 && count + 1 >= least) {
        const more = repeat(sequence(comma, other), 0, room - 1);
        options.push(sequence(before, other, more, end));
      }
      rules.define(name, choice(...options));
    }
  }
  return at(0, 0);
}
