import { GrammarError } from '../types.ts';
import { type CodePoints, complement, union } from '../ebnf/code-points.ts';
import { choice, empty, type Expression, repeat, sequence, set } from '../ebnf/expression.ts';
import {
  type Anchored,
  anyOf,
  end,
  inOrder,
  plain,
  plainExpression,
  repeated,
  start,
  textsOf,
} from './anchors.ts';
import { classes, controls, lineEnds, propertySet } from './character-sets.ts';

const mostDepth = 100;
const mostRepeats = 10_000;
const maxAnchors = 1000;
const anything = repeat(set([[0, 0x10ffff]]), 0);

/** What an unanchored pattern matches: `search` any text that contains a match, `whole` only the whole text. */
type Reach = 'search' | 'whole';

/**
 * Parses an ECMAScript regular expression with the `u` flag.
 * @throws GrammarError `invalid_grammar` for syntax errors and for features that a grammar cannot express
 */
export function parseRegex(pattern: string, reach: Reach): Expression {
  const reader = new RegexReader(pattern, reach);
  return reader.read();
}

class RegexReader {
  readonly #pattern: string;
  readonly #characters: string[];
  readonly #reach: Reach;
  #at = 0;
  #anchors = 0;

  constructor(pattern: string, reach: Reach) {
    this.#pattern = pattern;
    this.#characters = Array.from(pattern);
    this.#reach = reach;
  }

  read(): Expression {
    const options = [this.#terms(0)];
    while (this.#take('|')) options.push(this.#terms(0));
    if (this.#at < this.#characters.length) this.#fail(`an unmatched '${this.#next()}'`);
    const around = this.#reach === 'whole' ? empty : anything;
    return choice(...options.flatMap((option) => textsOf(option, around)));
  }

  #terms(depth: number): Anchored {
    const parts: Anchored[] = [];
    let run: Expression[] = [];
    const endRun = () => {
      if (run.length > 0) parts.push(plain(sequence(...run)));
      run = [];
    };
    for (;;) {
      const next = this.#next();
      if (next === undefined || next === '|' || next === ')') break;
      const part = this.#quantified(depth);
      const expression = plainExpression(part);
      if (expression) run.push(expression);
      else {
        endRun();
        parts.push(part);
      }
    }
    endRun();
    const [first = plain(empty), ...more] = parts;
    return more.reduce(inOrder, first);
  }

  #group(depth: number): Anchored {
    if (depth >= mostDepth) this.#fail(`groups nested deeper than ${mostDepth} levels`);
    const options: Anchored[] = [];
    do options.push(this.#terms(depth));
    while (this.#take('|'));
    if (!this.#take(')')) this.#fail('a group that is not closed');
    const expressions = options.map(plainExpression);
    return expressions.every((one) => one !== undefined) ? plain(choice(...expressions)) : anyOf(options);
  }

  #quantified(depth: number): Anchored {
    if (this.#take('^')) return this.#anchor(start);
    if (this.#take('$')) return this.#anchor(end);
    const atom = this.#atom(depth);
    const counts = this.#quantifier();
    if (!counts) return atom;
    // Lazy and greedy quantifiers match the same texts.
    this.#take('?');
    if (this.#next() === '+') this.#fail("a possessive '+'");
    const [min, max] = counts;
    if (min > max) this.#fail(`{${min},${max}}: the lower bound is larger than the upper one`);
    if (min > mostRepeats || (max > mostRepeats && max !== Number.POSITIVE_INFINITY))
      this.#fail(`more than ${mostRepeats} repetitions`);
    const expression = plainExpression(atom);
    return expression ? plain(repeat(expression, min, max)) : repeated(atom, min, max);
  }

  #anchor(anchor: Anchored): Anchored {
    if (++this.#anchors > maxAnchors) this.#fail(`more than ${maxAnchors} of '^' and '$'`);
    const at = this.#at;
    if (this.#quantifier()) {
      this.#at = at;
      this.#fail(`a '${this.#next()}' with nothing to repeat`);
    }
    return anchor;
  }

  #quantifier(): [number, number] | undefined {
    if (this.#take('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#take('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#take('?')) return [0, 1];
    const rest = this.#characters.slice(this.#at, this.#at + 24).join('');
    const counts = /^\{(\d+)(,(\d*))?\}/.exec(rest);
    if (!counts) return undefined;
    this.#at += counts[0].length;
    const min = Number(counts[1]);
    if (counts[2] === undefined) return [min, min];
    return [min, counts[3] ? Number(counts[3]) : Number.POSITIVE_INFINITY];
  }

  #atom(depth: number): Anchored {
    const character = this.#characters[this.#at++] as string;
    switch (character) {
      case '.':
        return plain(set(complement(lineEnds)));
      case '(':
        this.#openGroup();
        return this.#group(depth + 1);
      case '[':
        return plain(set(this.#class()));
      case '\\':
        return plain(set(this.#escape()));
      case '*':
      case '+':
      case '?':
        return this.#fail(`a '${character}' with nothing to repeat`);
      default:
        return plain(set([[character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]]));
    }
  }

  #openGroup(): void {
    if (!this.#take('?')) return;
    if (this.#take(':')) return;
    const kind = this.#characters.slice(this.#at, this.#at + 2).join('');
    if (kind.startsWith('=') || kind.startsWith('!'))
      this.#fail('a lookahead, which a grammar cannot express; write what may follow instead');
    if (kind === '<=' || kind === '<!')
      this.#fail('a lookbehind, which a grammar cannot express; write what may precede instead');
    const named = /^<[\p{ID_Start}$_][\p{ID_Continue}$]*>/u.exec(this.#characters.slice(this.#at).join(''));
    if (!named) this.#fail(`a group of the unknown kind '(?${kind}'`);
    this.#at += Array.from(named[0]).length;
  }

  #class(): CodePoints {
    const negated = this.#take('^');
    let found: CodePoints = [];
    for (;;) {
      const next = this.#next();
      if (next === undefined) this.#fail('a class that is not closed');
      if (this.#take(']')) break;
      const first = this.#classAtom();
      if (this.#next() !== '-' || this.#characters[this.#at + 1] === ']') {
        found = union(found, first);
        continue;
      }
      this.#at++;
      if (this.#next() === undefined) this.#fail('a class that is not closed');
      const last = this.#classAtom();
      const [from, to] = [single(first), single(last)];
      if (from === undefined || to === undefined) {
        found = union(union(found, first), union(last, [[0x2d, 0x2d]]));
        continue;
      }
      if (from > to) this.#fail('a character range whose first character is after its last');
      found = union(found, [[from, to]]);
    }
    return negated ? complement(found) : found;
  }

  #classAtom(): CodePoints {
    const character = this.#characters[this.#at++] as string;
    if (character !== '\\') return [[character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0]];
    if (this.#take('b')) return [[8, 8]];
    if (this.#take('-')) return [[0x2d, 0x2d]];
    return this.#escape();
  }

  #escape(): CodePoints {
    const character = this.#characters[this.#at++];
    if (character === undefined) return this.#fail("a '\\' at the end");
    const known = classes[character];
    if (known) return known;
    if (character === '0' && /\d/.test(this.#next() ?? '')) this.#fail('an octal escape');
    const control = controls[character];
    if (control !== undefined) return [[control, control]];
    if (character === 'x') return this.#hex(/^[0-9a-fA-F]{2}/);
    if (character === 'u') return this.#unicode();
    if (character === 'c') {
      const letter = this.#next() ?? '';
      if (!/^[a-zA-Z]$/.test(letter)) this.#fail("a '\\c' without its letter");
      this.#at++;
      const code = letter.charCodeAt(0) & 0x1f;
      return [[code, code]];
    }
    if (character === 'p' || character === 'P') return this.#property(character === 'P');
    if (character === 'b' || character === 'B') return this.#fail(`a word boundary '\\${character}'`);
    if (/[1-9k]/.test(character)) return this.#fail('a back-reference');
    if (/[a-zA-Z]/.test(character)) return this.#fail(`the unknown escape '\\${character}'`);
    const code = character.codePointAt(0) ?? 0;
    return [[code, code]];
  }

  #unicode(): CodePoints {
    const rest = this.#characters.slice(this.#at, this.#at + 12).join('');
    const braced = /^\{([0-9a-fA-F]{1,6})\}/.exec(rest);
    if (braced) {
      this.#at += braced[0].length;
      const code = Number.parseInt(braced[1] as string, 16);
      if (code > 0x10ffff) this.#fail('an escape beyond U+10FFFF');
      return [[code, code]];
    }
    const pair = /^(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/i.exec(rest);
    if (pair) {
      this.#at += pair[0].length;
      const [high, low] = [Number.parseInt(pair[1] as string, 16), Number.parseInt(pair[2] as string, 16)];
      const code = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
      return [[code, code]];
    }
    return this.#hex(/^[0-9a-fA-F]{4}/);
  }

  #hex(form: RegExp): CodePoints {
    const rest = this.#characters.slice(this.#at, this.#at + 4).join('');
    const found = form.exec(rest);
    if (!found) return this.#fail('an escape without its hexadecimal digits');
    this.#at += found[0].length;
    const code = Number.parseInt(found[0], 16);
    return [[code, code]];
  }

  #property(negated: boolean): CodePoints {
    const name = /^\{([A-Za-z_=]{1,60})\}/.exec(this.#characters.slice(this.#at, this.#at + 64).join(''));
    if (!name) return this.#fail("a '\\p' without its '{name}'");
    this.#at += name[0].length;
    const found = propertySet(name[1] as string);
    if (!found) return this.#fail(`the unknown property '\\p${name[0]}'`);
    return negated ? complement(found) : found;
  }

  #next(): string | undefined {
    return this.#characters[this.#at];
  }

  #take(character: string): boolean {
    if (this.#characters[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #fail(what: string): never {
    throw new GrammarError(
      'invalid_grammar',
      `the regular expression ${JSON.stringify(this.#pattern.slice(0, 200))} has ${what} (near character ${this.#at})`,
    );
  }
}

const single = (points: CodePoints): number | undefined =>
  points.length === 1 && points[0]?.[0] === points[0]?.[1] ? points[0]?.[0] : undefined;
