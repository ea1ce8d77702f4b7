import { isRecord } from '../../util/json.ts';
import { type CodePoints, allCodePoints, intersection } from '../ebnf/code-points.ts';
import { addCountedItems } from '../ebnf/counted-items.ts';
import { choice, type Expression, repeat, rule, sequence, set, text } from '../ebnf/expression.ts';
import {
  type Automaton,
  intersectAutomata,
  acceptsNothing,
  complementAutomaton,
  toAutomaton,
} from '../regex/automaton.ts';
import { parseRegex } from '../regex/parse-regex.ts';
import { writeAutomaton } from '../regex/write-automaton.ts';
import { GrammarError } from '../types.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import type { SchemaLocation, SchemaObject } from './schema-document.ts';
import { findStringFormat } from './formats.ts';
import { countOf, enumeratedValuesOf } from './keywords.ts';
import { appendPointer, createUnsupportedError } from './schema-errors.ts';
import { toStringCharacter, jsonCharacter, toStringContent } from './json-syntax.ts';

const quote = text('"');
/** Limit of states of a pattern with a length. */
const maxPatternStates = 3000;
const maxSupportedLength = 10_000;

/** The combined constraints of a string: it must match all expressions and no exclusion, and have an allowed length. */
export interface StringConstraints {
  readonly expressions: ReadonlyMap<string, Expression>;
  readonly exclusions: ReadonlyMap<string, Expression>;
  readonly minLength: number;
  readonly maxLength: number;
}

export function readStringConstraints(locations: readonly SchemaLocation[]): StringConstraints {
  const expressions = new Map<string, Expression>();
  const exclusions = new Map<string, Expression>();
  let minLength = 0;
  let maxLength = Number.POSITIVE_INFINITY;
  for (const location of locations) {
    const schema = location.schema as SchemaObject;
    minLength = Math.max(minLength, countOf(location, 'minLength') ?? 0);
    maxLength = Math.min(maxLength, countOf(location, 'maxLength') ?? Number.POSITIVE_INFINITY);
    const { pattern, format, not: negated } = schema;
    if (pattern !== undefined) {
      const path = appendPointer(location.path, 'pattern');
      if (typeof pattern !== 'string') throw createUnsupportedError(path, 'pattern', 'it must be a string');
      expressions.set(`pattern ${pattern}`, readPattern(pattern, path, 'pattern'));
    }
    if (typeof format === 'string') {
      const formatExpression = findStringFormat(format);
      if (formatExpression === 'beyond')
        throw createUnsupportedError(
          appendPointer(location.path, 'format'),
          'format',
          `a grammar cannot enforce '${format}'`,
        );
      if (formatExpression) expressions.set(`format ${format}`, formatExpression);
    }
    if (isRecord(negated)) {
      const path = appendPointer(location.path, 'not');
      for (const value of enumeratedValuesOf({ schema: negated, path }) ?? [])
        if (typeof value === 'string') exclusions.set(`value ${value}`, text(value));
      const other = negated['pattern'];
      if (typeof other === 'string') exclusions.set(`pattern ${other}`, readPattern(other, path, 'not'));
    }
  }
  if (minLength > maxSupportedLength)
    throw createUnsupportedError(
      locations[0]?.path ?? '',
      'minLength',
      `more than ${maxSupportedLength} characters`,
    );
  return { expressions, exclusions, minLength, maxLength };
}

/** Parses a pattern that may match anywhere in a text; errors have the path of the keyword. */
export function readPattern(pattern: string, path: string, keyword: string): Expression {
  try {
    return parseRegex(pattern, 'search');
  } catch (error) {
    if (error instanceof GrammarError) throw createUnsupportedError(path, keyword, error.message);
    throw error;
  }
}

/**
 * Writes a string.
 * @param isOnlyString whether no other string is possible here, so that a length mark is unambiguous
 * @returns undefined when no string matches
 */
export function writeString(
  builder: GrammarBuilder,
  constraints: StringConstraints,
  isOnlyString: boolean,
): Expression | undefined {
  const { expressions, exclusions, minLength, maxLength } = constraints;
  if (minLength > maxLength) return undefined;
  const key = JSON.stringify([
    'text',
    [...expressions.keys()],
    [...exclusions.keys()],
    minLength,
    String(maxLength),
    isOnlyString,
  ]);
  return builder.shared(key, 'text', () => writeNewString(builder, constraints, isOnlyString));
}

function writeNewString(
  builder: GrammarBuilder,
  constraints: StringConstraints,
  isOnlyString: boolean,
): Expression | undefined {
  const { expressions, exclusions, minLength, maxLength } = constraints;
  const characterRun = toCharacterRun(constraints);
  if (characterRun) return writeCharacterRun(builder, characterRun, isOnlyString);
  const [first, ...others] = expressions.values();
  if (first && others.length === 0 && exclusions.size === 0) {
    const [shortest, longest] = lengthRange(first);
    if (shortest >= minLength && longest <= maxLength) return writeLanguage(builder, first);
  }
  return writeStringAutomaton(builder, buildStringAutomaton(constraints));
}

/** A string that is only constrained by its length and one character set. */
interface CharacterRun {
  readonly characters: CodePoints;
  readonly minLength: number;
  readonly maxLength: number;
}

function toCharacterRun({
  expressions,
  exclusions,
  minLength,
  maxLength,
}: StringConstraints): CharacterRun | undefined {
  if (exclusions.size > 0) return undefined;
  let characterRun: CharacterRun = { characters: allCodePoints, minLength, maxLength };
  for (const expression of expressions.values()) {
    if (expression.kind !== 'repeat' || expression.of.kind !== 'set') return undefined;
    characterRun = {
      characters: intersection(characterRun.characters, expression.of.set),
      minLength: Math.max(characterRun.minLength, expression.min),
      maxLength: Math.min(characterRun.maxLength, expression.max),
    };
  }
  return characterRun;
}

/** Whether the expression written for the constraints certainly accepts this string. */
export function acceptsString(constraints: StringConstraints, value: string): boolean {
  const characterRun = toCharacterRun(constraints);
  if (!characterRun) return false;
  const codes = Array.from(value, (character) => character.codePointAt(0) ?? 0);
  return (
    codes.length >= characterRun.minLength &&
    codes.length <= Math.min(characterRun.maxLength, maxSupportedLength) &&
    codes.every((code) => characterRun.characters.some(([first, last]) => first <= code && code <= last))
  );
}

function writeCharacterRun(
  builder: GrammarBuilder,
  { characters, minLength, maxLength }: CharacterRun,
  isOnlyString: boolean,
): Expression | undefined {
  if (minLength > maxLength || (characters.length === 0 && minLength > 0)) return undefined;
  if (characters.length === 0 || maxLength === 0) return text('""');
  const allowsAnyCharacter = characters.length === allCodePoints.length && characters.every(isFullRange);
  const character = allowsAnyCharacter ? jsonCharacter : toStringCharacter(characters);
  const rest = allowsAnyCharacter ? rule('rest_of_string') : writeRest(builder, characters, character);
  const isUnlimited = maxLength === Number.POSITIVE_INFINITY;
  if (isUnlimited && minLength === 0) return sequence(quote, rest);
  if (isUnlimited && minLength === 1)
    return sequence(quote, rule(builder.add('some', sequence(character, rest))));
  // Limit very large bounds: a shorter string is valid too.
  const lengthLimit = isUnlimited ? maxLength : Math.max(minLength, Math.min(maxLength, maxSupportedLength));
  const lengthMark = isOnlyString
    ? builder.createLengthMark({ minLength, maxLength: lengthLimit })
    : undefined;
  if (lengthMark) return sequence(quote, lengthMark, rest);
  return sequence(
    quote,
    addCountedItems(
      builder,
      character,
      minLength,
      isUnlimited ? minLength : lengthLimit,
      isUnlimited ? rest : quote,
    ),
  );
}

const isFullRange = ([first, last]: CodePoints[number], index: number): boolean =>
  first === allCodePoints[index]?.[0] && last === allCodePoints[index][1];

/** Any number of characters of the set, then the closing quote. */
function writeRest(builder: GrammarBuilder, characters: CodePoints, character: Expression): Expression {
  const key = JSON.stringify(['rest', characters]);
  return builder.addSharedRecursive(key, 'rest', (self) => choice(quote, sequence(character, self)));
}

/** Writes an expression as an automaton if it is small enough, because automata match fast. */
function writeLanguage(builder: GrammarBuilder, expression: Expression): Expression | undefined {
  let automaton: Automaton;
  try {
    automaton = toAutomaton(expression);
  } catch (error) {
    if (error instanceof GrammarError) return sequence(quote, toStringContent(expression), quote);
    throw error;
  }
  return writeStringAutomaton(builder, automaton);
}

const writeStringAutomaton = (builder: GrammarBuilder, automaton: Automaton): Expression | undefined =>
  acceptsNothing(automaton)
    ? undefined
    : sequence(
        quote,
        writeAutomaton(builder, automaton, quote, ({ set: characters }) => toStringCharacter(characters)),
      );

export function buildStringAutomaton({
  expressions,
  exclusions,
  minLength,
  maxLength,
}: StringConstraints): Automaton {
  let automaton = toAutomaton(repeat(anyCharacter, 0));
  for (const expression of expressions.values())
    automaton = intersectAutomata(automaton, toAutomaton(expression));
  if (exclusions.size > 0)
    automaton = intersectAutomata(
      automaton,
      complementAutomaton(toAutomaton(choice(...exclusions.values()))),
    );
  if (minLength === 0 && maxLength === Number.POSITIVE_INFINITY) return automaton;
  // Every character of a long text costs a copy of the states. Limit the length: a shorter string is valid too.
  const lengthBudget = Math.max(minLength, Math.floor(maxPatternStates / automaton.edges.length), 1);
  return intersectAutomata(
    automaton,
    toAutomaton(
      repeat(
        anyCharacter,
        minLength,
        maxLength > lengthBudget && maxLength !== Number.POSITIVE_INFINITY ? lengthBudget : maxLength,
      ),
    ),
  );
}

const anyCharacter = set([[0, 0x10ffff]]);

/** The minimum and maximum number of characters of an expression. */
function lengthRange(expression: Expression): [least: number, most: number] {
  switch (expression.kind) {
    case 'text': {
      const length = Array.from(expression.text).length;
      return [length, length];
    }
    case 'set':
      return [1, 1];
    case 'sequence':
      return expression.parts.map(lengthRange).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
    case 'choice': {
      const ranges = expression.options.map(lengthRange);
      return [
        Math.min(...ranges.map(([minLength]) => minLength)),
        Math.max(...ranges.map(([, maxLength]) => maxLength)),
      ];
    }
    case 'repeat': {
      const [minLength, maxLength] = lengthRange(expression.of);
      return [minLength * expression.min, maxLength === 0 ? 0 : maxLength * expression.max];
    }
    case 'rule':
    case 'mark':
    case 'free':
      throw new Error(`a pattern has no ${expression.kind}`);
  }
}
