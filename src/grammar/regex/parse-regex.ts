import { GrammarError } from '../types.ts';
import { type CodePoints, complement, union } from '../ebnf/code-points.ts';
import { choice, empty, type Expression, repeat, sequence, set } from '../ebnf/expression.ts';
import {
  type AnchoredPart,
  alternation,
  endAnchor,
  concatenation,
  unanchored,
  expressionWithoutAnchors,
  repetition,
  startAnchor,
  toExpressions,
} from './anchors.ts';
import { classEscapes, controlEscapes, lineTerminators, findPropertySet } from './character-sets.ts';

const maxDepth = 100;
const maxRepeats = 10_000;
const maxAnchors = 1000;
const anyText = repeat(set([[0, 0x10ffff]]), 0);

/** What an unanchored pattern matches: `search` any text that contains a match, `whole` only the whole text. */
type MatchScope = 'search' | 'whole';

/**
 * Parses an ECMAScript regular expression with the `u` flag.
 * @throws GrammarError `invalid_grammar` for syntax errors and for features that a grammar cannot express
 */
export function parseRegex(pattern: string, scope: MatchScope): Expression {
  const reader = new RegexReader(pattern, scope);
  return reader.read();
}

class RegexReader {
  readonly #pattern: string;
  readonly #characters: string[];
  readonly #scope: MatchScope;
  #position = 0;
  #anchors = 0;

  constructor(pattern: string, scope: MatchScope) {
    this.#pattern = pattern;
    this.#characters = Array.from(pattern);
    this.#scope = scope;
  }

  read(): Expression {
    const options = [this.#readTerms(0)];
    while (this.#consume('|')) options.push(this.#readTerms(0));
    if (this.#position < this.#characters.length) this.#fail(`an unmatched '${this.#peek()}'`);
    const surroundings = this.#scope === 'whole' ? empty : anyText;
    return choice(...options.flatMap((option) => toExpressions(option, surroundings)));
  }

  #readTerms(depth: number): AnchoredPart {
    const parts: AnchoredPart[] = [];
    let pending: Expression[] = [];
    const flushPending = () => {
      if (pending.length > 0) parts.push(unanchored(sequence(...pending)));
      pending = [];
    };
    for (;;) {
      const character = this.#peek();
      if (character === undefined || character === '|' || character === ')') break;
      const part = this.#readQuantified(depth);
      const expression = expressionWithoutAnchors(part);
      if (expression) pending.push(expression);
      else {
        flushPending();
        parts.push(part);
      }
    }
    flushPending();
    const [first = unanchored(empty), ...more] = parts;
    return more.reduce(concatenation, first);
  }

  #readGroup(depth: number): AnchoredPart {
    if (depth >= maxDepth) this.#fail(`groups nested deeper than ${maxDepth} levels`);
    const options: AnchoredPart[] = [];
    do options.push(this.#readTerms(depth));
    while (this.#consume('|'));
    if (!this.#consume(')')) this.#fail('a group that is not closed');
    const expressions = options.map(expressionWithoutAnchors);
    return expressions.every((one) => one !== undefined)
      ? unanchored(choice(...expressions))
      : alternation(options);
  }

  #readQuantified(depth: number): AnchoredPart {
    if (this.#consume('^')) return this.#readAnchor(startAnchor);
    if (this.#consume('$')) return this.#readAnchor(endAnchor);
    const atom = this.#readAtom(depth);
    const bounds = this.#readQuantifier();
    if (!bounds) return atom;
    // Lazy and greedy quantifiers match the same texts.
    this.#consume('?');
    if (this.#peek() === '+') this.#fail("a possessive '+'");
    const [min, max] = bounds;
    if (min > max) this.#fail(`{${min},${max}}: the lower bound is larger than the upper one`);
    if (min > maxRepeats || (max > maxRepeats && max !== Number.POSITIVE_INFINITY))
      this.#fail(`more than ${maxRepeats} repetitions`);
    const expression = expressionWithoutAnchors(atom);
    return expression ? unanchored(repeat(expression, min, max)) : repetition(atom, min, max);
  }

  #readAnchor(anchor: AnchoredPart): AnchoredPart {
    if (++this.#anchors > maxAnchors) this.#fail(`more than ${maxAnchors} of '^' and '$'`);
    const position = this.#position;
    if (this.#readQuantifier()) {
      this.#position = position;
      this.#fail(`a '${this.#peek()}' with nothing to repeat`);
    }
    return anchor;
  }

  #readQuantifier(): [number, number] | undefined {
    if (this.#consume('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#consume('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#consume('?')) return [0, 1];
    const rest = this.#characters.slice(this.#position, this.#position + 24).join('');
    const bounds = /^\{(\d+)(,(\d*))?\}/.exec(rest);
    if (!bounds) return undefined;
    this.#position += bounds[0].length;
    const min = Number(bounds[1]);
    if (bounds[2] === undefined) return [min, min];
    return [min, bounds[3] ? Number(bounds[3]) : Number.POSITIVE_INFINITY];
  }

  #readAtom(depth: number): AnchoredPart {
    const character = this.#characters[this.#position++] as string;
    switch (character) {
      case '.':
        return unanchored(set(complement(lineTerminators)));
      case '(':
        this.#readGroupStart();
        return this.#readGroup(depth + 1);
      case '[':
        return unanchored(set(this.#readClass()));
      case '\\':
        return unanchored(set(this.#readEscape()));
      case '*':
      case '+':
      case '?':
        return this.#fail(`a '${character}' with nothing to repeat`);
      default:
        return unanchored(set([[character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]]));
    }
  }

  #readGroupStart(): void {
    if (!this.#consume('?')) return;
    if (this.#consume(':')) return;
    const kind = this.#characters.slice(this.#position, this.#position + 2).join('');
    if (kind.startsWith('=') || kind.startsWith('!'))
      this.#fail('a lookahead, which a grammar cannot express; write what may follow instead');
    if (kind === '<=' || kind === '<!')
      this.#fail('a lookbehind, which a grammar cannot express; write what may precede instead');
    const named = /^<[\p{ID_Start}$_][\p{ID_Continue}$]*>/u.exec(
      this.#characters.slice(this.#position).join(''),
    );
    if (!named) this.#fail(`a group of the unknown kind '(?${kind}'`);
    this.#position += Array.from(named[0]).length;
  }

  #readClass(): CodePoints {
    const negated = this.#consume('^');
    let ranges: CodePoints = [];
    for (;;) {
      const character = this.#peek();
      if (character === undefined) this.#fail('a class that is not closed');
      if (this.#consume(']')) break;
      const first = this.#readClassAtom();
      if (this.#peek() !== '-' || this.#characters[this.#position + 1] === ']') {
        ranges = union(ranges, first);
        continue;
      }
      this.#position++;
      if (this.#peek() === undefined) this.#fail('a class that is not closed');
      const last = this.#readClassAtom();
      const [from, to] = [singleCodePoint(first), singleCodePoint(last)];
      if (from === undefined || to === undefined) {
        ranges = union(union(ranges, first), union(last, [[0x2d, 0x2d]]));
        continue;
      }
      if (from > to) this.#fail('a character range whose first character is after its last');
      ranges = union(ranges, [[from, to]]);
    }
    return negated ? complement(ranges) : ranges;
  }

  #readClassAtom(): CodePoints {
    const character = this.#characters[this.#position++] as string;
    if (character !== '\\') return [[character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]];
    if (this.#consume('b')) return [[8, 8]];
    if (this.#consume('-')) return [[0x2d, 0x2d]];
    return this.#readEscape();
  }

  #readEscape(): CodePoints {
    const character = this.#characters[this.#position++];
    if (character === undefined) return this.#fail("a '\\' at the end");
    const classEscape = classEscapes[character];
    if (classEscape) return classEscape;
    if (character === '0' && /\d/.test(this.#peek() ?? '')) this.#fail('an octal escape');
    const control = controlEscapes[character];
    if (control !== undefined) return [[control, control]];
    if (character === 'x') return this.#readHexEscape(/^[0-9a-fA-F]{2}/);
    if (character === 'u') return this.#readUnicodeEscape();
    if (character === 'c') {
      const letter = this.#peek() ?? '';
      if (!/^[a-zA-Z]$/.test(letter)) this.#fail("a '\\c' without its letter");
      this.#position++;
      const code = letter.charCodeAt(0) & 0x1f;
      return [[code, code]];
    }
    if (character === 'p' || character === 'P') return this.#readProperty(character === 'P');
    if (character === 'b' || character === 'B') return this.#fail(`a word boundary '\\${character}'`);
    if (/[1-9k]/.test(character)) return this.#fail('a back-reference');
    if (/[a-zA-Z]/.test(character)) return this.#fail(`the unknown escape '\\${character}'`);
    const code = character.codePointAt(0) ?? 0;
    return [[code, code]];
  }

  #readUnicodeEscape(): CodePoints {
    const rest = this.#characters.slice(this.#position, this.#position + 12).join('');
    const braced = /^\{([0-9a-fA-F]{1,6})\}/.exec(rest);
    if (braced) {
      this.#position += braced[0].length;
      const code = Number.parseInt(braced[1] as string, 16);
      if (code > 0x10ffff) this.#fail('an escape beyond U+10FFFF');
      return [[code, code]];
    }
    const pair = /^(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/i.exec(rest);
    if (pair) {
      this.#position += pair[0].length;
      const [high, low] = [Number.parseInt(pair[1] as string, 16), Number.parseInt(pair[2] as string, 16)];
      const code = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
      return [[code, code]];
    }
    return this.#readHexEscape(/^[0-9a-fA-F]{4}/);
  }

  #readHexEscape(pattern: RegExp): CodePoints {
    const rest = this.#characters.slice(this.#position, this.#position + 4).join('');
    const found = pattern.exec(rest);
    if (!found) return this.#fail('an escape without its hexadecimal digits');
    this.#position += found[0].length;
    const code = Number.parseInt(found[0], 16);
    return [[code, code]];
  }

  #readProperty(negated: boolean): CodePoints {
    const name = /^\{([A-Za-z_=]{1,60})\}/.exec(
      this.#characters.slice(this.#position, this.#position + 64).join(''),
    );
    if (!name) return this.#fail("a '\\p' without its '{name}'");
    this.#position += name[0].length;
    const found = findPropertySet(name[1] as string);
    if (!found) return this.#fail(`the unknown property '\\p${name[0]}'`);
    return negated ? complement(found) : found;
  }

  #peek(): string | undefined {
    return this.#characters[this.#position];
  }

  #consume(character: string): boolean {
    if (this.#characters[this.#position] !== character) return false;
    this.#position++;
    return true;
  }

  #fail(problem: string): never {
    throw new GrammarError(
      'invalid_grammar',
      `the regular expression ${JSON.stringify(this.#pattern.slice(0, 200))} has ${problem} (near character ${this.#position})`,
    );
  }
}

const singleCodePoint = (points: CodePoints): number | undefined =>
  points.length === 1 && points[0]?.[0] === points[0]?.[1] ? points[0]?.[0] : undefined;
