import { isRecord } from '../../util/json.ts';
import { type CodePoints, everyCharacter, intersection } from '../ebnf/code-points.ts';
import { counted } from '../ebnf/counted.ts';
import { choice, type Expression, repeat, rule, sequence, set, text } from '../ebnf/expression.ts';
import { type Automaton, both, isNever, not, toAutomaton } from '../regex/automaton.ts';
import { parseRegex } from '../regex/parse.ts';
import { writeAutomaton } from '../regex/write.ts';
import { GrammarError } from '../types.ts';
import type { Rules } from '../ebnf/rules.ts';
import type { Place, SchemaObject } from './document.ts';
import { textFormat } from './formats.ts';
import { countOf, valuesOf } from './keywords.ts';
import { pointer, unsupported } from './refusal.ts';
import { inString, jsonCharacter, quoted } from './text.ts';

const quote = text('"');
/** Limit of states of a pattern with a length. */
const mostProduct = 3000;
const mostLength = 10_000;

/** The combined constraints of a string: it must match all expressions and no exclusion, and have an allowed length. */
export interface TextNeed {
  readonly languages: ReadonlyMap<string, Expression>;
  readonly excluded: ReadonlyMap<string, Expression>;
  readonly least: number;
  readonly most: number;
}

export function textNeed(places: readonly Place[]): TextNeed {
  const languages = new Map<string, Expression>();
  const excluded = new Map<string, Expression>();
  let least = 0;
  let most = Number.POSITIVE_INFINITY;
  for (const place of places) {
    const schema = place.schema as SchemaObject;
    least = Math.max(least, countOf(place, 'minLength') ?? 0);
    most = Math.min(most, countOf(place, 'maxLength') ?? Number.POSITIVE_INFINITY);
    const { pattern, format, not: negated } = schema;
    if (pattern !== undefined) {
      const path = pointer(place.path, 'pattern');
      if (typeof pattern !== 'string') throw unsupported(path, 'pattern', 'it must be a string');
      languages.set(`pattern ${pattern}`, readPattern(pattern, path, 'pattern'));
    }
    if (typeof format === 'string') {
      const found = textFormat(format);
      if (found === 'beyond')
        throw unsupported(pointer(place.path, 'format'), 'format', `a grammar cannot enforce '${format}'`);
      if (found) languages.set(`format ${format}`, found);
    }
    if (isRecord(negated)) {
      const path = pointer(place.path, 'not');
      for (const value of valuesOf({ schema: negated, path }) ?? [])
        if (typeof value === 'string') excluded.set(`value ${value}`, text(value));
      const other = negated['pattern'];
      if (typeof other === 'string') excluded.set(`pattern ${other}`, readPattern(other, path, 'not'));
    }
  }
  if (least > mostLength)
    throw unsupported(places[0]?.path ?? '', 'minLength', `more than ${mostLength} characters`);
  return { languages, excluded, least, most };
}

/** Parses a pattern that may match anywhere in a text; errors have the path of the keyword. */
export function readPattern(pattern: string, path: string, keyword: string): Expression {
  try {
    return parseRegex(pattern, 'search');
  } catch (error) {
    if (error instanceof GrammarError) throw unsupported(path, keyword, error.message);
    throw error;
  }
}

/**
 * Writes a string.
 * @param isOnlyString whether no other string is possible here, so that a length mark is unambiguous
 * @returns undefined when no string matches
 */
export function writeText(rules: Rules, need: TextNeed, certain: boolean): Expression | undefined {
  const { languages, excluded, least, most } = need;
  if (least > most) return undefined;
  const key = JSON.stringify([
    'text',
    [...languages.keys()],
    [...excluded.keys()],
    least,
    String(most),
    certain,
  ]);
  return rules.shared(key, 'text', () => writeNewText(rules, need, certain));
}

function writeNewText(rules: Rules, need: TextNeed, certain: boolean): Expression | undefined {
  const { languages, excluded, least, most } = need;
  const run = runOf(need);
  if (run) return writeRun(rules, run, certain);
  const [first, ...others] = languages.values();
  if (first && others.length === 0 && excluded.size === 0) {
    const [shortest, longest] = lengths(first);
    if (shortest >= least && longest <= most) return writeLanguage(rules, first);
  }
  return writeStates(rules, textAutomaton(need));
}

/** A string that is only constrained by its length and one character set. */
interface Run {
  readonly characters: CodePoints;
  readonly least: number;
  readonly most: number;
}

function runOf({ languages, excluded, least, most }: TextNeed): Run | undefined {
  if (excluded.size > 0) return undefined;
  let run: Run = { characters: everyCharacter, least, most };
  for (const language of languages.values()) {
    if (language.kind !== 'repeat' || language.of.kind !== 'set') return undefined;
    run = {
      characters: intersection(run.characters, language.of.set),
      least: Math.max(run.least, language.min),
      most: Math.min(run.most, language.max),
    };
  }
  return run;
}

/** Whether the expression written for the constraints certainly accepts this string. */
export function writesText(need: TextNeed, value: string): boolean {
  const run = runOf(need);
  if (!run) return false;
  const codes = Array.from(value, (character) => character.codePointAt(0) ?? 0);
  return (
    codes.length >= run.least &&
    codes.length <= Math.min(run.most, mostLength) &&
    codes.every((code) => run.characters.some(([first, last]) => first <= code && code <= last))
  );
}

function writeRun(rules: Rules, { characters, least, most }: Run, certain: boolean): Expression | undefined {
  if (least > most || (characters.length === 0 && least > 0)) return undefined;
  if (characters.length === 0 || most === 0) return text('""');
  const free = characters.length === everyCharacter.length && characters.every(isEvery);
  const character = free ? jsonCharacter : inString(characters);
  const rest = free ? rule('rest_of_string') : restOf(rules, characters, character);
  const anyMore = most === Number.POSITIVE_INFINITY;
  if (anyMore && least === 0) return sequence(quote, rest);
  if (anyMore && least === 1) return sequence(quote, rule(rules.add('some', sequence(character, rest))));
  // Limit very large bounds: a shorter string is valid too.
  const bound = anyMore ? most : Math.max(least, Math.min(most, mostLength));
  const mark = certain ? rules.mark({ least, most: bound }) : undefined;
  if (mark) return sequence(quote, mark, rest);
  return sequence(quote, counted(rules, character, least, anyMore ? least : bound, anyMore ? rest : quote));
}

const isEvery = ([first, last]: CodePoints[number], index: number): boolean =>
  first === everyCharacter[index]?.[0] && last === everyCharacter[index][1];

/** Any number of characters of the set, then the closing quote. */
function restOf(rules: Rules, characters: CodePoints, character: Expression): Expression {
  const key = JSON.stringify(['rest', characters]);
  return rules.sharedLoop(key, 'rest', (again) => choice(quote, sequence(character, again)));
}

/** Writes an expression as an automaton if it is small enough, because automata match fast. */
function writeLanguage(rules: Rules, language: Expression): Expression | undefined {
  let automaton: Automaton;
  try {
    automaton = toAutomaton(language);
  } catch (error) {
    if (error instanceof GrammarError) return sequence(quote, quoted(language), quote);
    throw error;
  }
  return writeStates(rules, automaton);
}

const writeStates = (rules: Rules, automaton: Automaton): Expression | undefined =>
  isNever(automaton)
    ? undefined
    : sequence(
        quote,
        writeAutomaton(rules, automaton, quote, ({ set: characters }) => inString(characters)),
      );

export function textAutomaton({ languages, excluded, least, most }: TextNeed): Automaton {
  let found = toAutomaton(repeat(anyCharacter, 0));
  for (const language of languages.values()) found = both(found, toAutomaton(language));
  if (excluded.size > 0) found = both(found, not(toAutomaton(choice(...excluded.values()))));
  if (least === 0 && most === Number.POSITIVE_INFINITY) return found;
  // Every character of a long text costs a copy of the states. Limit the length: a shorter string is valid too.
  const room = Math.max(least, Math.floor(mostProduct / found.edges.length), 1);
  return both(
    found,
    toAutomaton(repeat(anyCharacter, least, most > room && most !== Number.POSITIVE_INFINITY ? room : most)),
  );
}

const anyCharacter = set([[0, 0x10ffff]]);

/** The minimum and maximum number of characters of an expression. */
function lengths(expression: Expression): [least: number, most: number] {
  switch (expression.kind) {
    case 'text': {
      const length = Array.from(expression.text).length;
      return [length, length];
    }
    case 'set':
      return [1, 1];
    case 'sequence':
      return expression.parts.map(lengths).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
    case 'choice': {
      const all = expression.options.map(lengths);
      return [Math.min(...all.map(([least]) => least)), Math.max(...all.map(([, most]) => most))];
    }
    case 'repeat': {
      const [least, most] = lengths(expression.of);
      return [least * expression.min, most === 0 ? 0 : most * expression.max];
    }
    case 'rule':
    case 'mark':
    case 'free':
      throw new Error(`a pattern has no ${expression.kind}`);
  }
}
