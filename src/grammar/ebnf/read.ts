import { GrammarError } from '../types.ts';
import { type CodePoints, codePoints, complement } from './code-points.ts';
import { choice, type Expression, repeat, rule, sequence, set, text } from './expression.ts';
import type { Rules } from './rules.ts';

const mostDepth = 200;
const mostRepeats = 100_000;

/**
 * Parses a grammar in XGrammar's EBNF or llama.cpp's GBNF, which have the same syntax, and adds its rules.
 * @returns the name of the root rule
 * @throws GrammarError `invalid_grammar` with the line
 */
export function addGrammar(rules: Rules, source: string, root = 'root'): string {
  return new GrammarReader(rules, source).read(root);
}

const escapes: Readonly<Record<string, number>> = {
  n: 10,
  r: 13,
  t: 9,
  f: 12,
  v: 11,
  b: 8,
  a: 7,
  e: 27,
  '0': 0,
};
const hexadecimal: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class GrammarReader {
  readonly #rules: Rules;
  readonly #source: string;
  readonly #names = new Map<string, string>();
  readonly #defined = new Set<string>();
  readonly #used = new Map<string, number>();
  #at = 0;

  constructor(rules: Rules, source: string) {
    this.#rules = rules;
    this.#source = source;
  }

  read(root: string): string {
    this.#blanks();
    while (this.#at < this.#source.length) this.#rule();
    for (const [name, at] of this.#used) {
      if (!this.#defined.has(name)) this.#fail(`the rule '${name}' is not defined`, at);
    }
    if (!this.#defined.has(root)) {
      throw new GrammarError(
        'invalid_grammar',
        `the grammar has no start rule '${root}'; its rules are: ${[...this.#defined].slice(0, 20).join(', ') || 'none'}`,
      );
    }
    return this.#nameOf(root);
  }

  #rule(): void {
    const start = this.#at;
    const name = this.#name() ?? this.#fail(`expected 'name ::= ...'`);
    this.#blanks();
    if (!this.#take('::=')) this.#fail(`expected '::=' after '${name}'`);
    if (this.#defined.has(name))
      this.#fail(`the rule '${name}' is defined twice; combine the definitions with '|'`, start);
    this.#defined.add(name);
    this.#blanks();
    const expression = this.#choice(0);
    if (this.#at < this.#source.length && !this.#atRule())
      this.#fail(`unexpected '${this.#source[this.#at]}'`);
    this.#rules.define(this.#nameOf(name), expression);
  }

  #choice(depth: number): Expression {
    if (depth > mostDepth) this.#fail(`groups are nested deeper than ${mostDepth} levels`);
    const options = [this.#sequence(depth)];
    while (this.#take('|')) {
      this.#blanks();
      options.push(this.#sequence(depth));
    }
    return options.length === 1 ? (options[0] as Expression) : choice(...options);
  }

  #sequence(depth: number): Expression {
    const parts: Expression[] = [];
    for (;;) {
      const next = this.#source[this.#at];
      if (next === undefined || next === '|' || next === ')' || this.#atRule()) return sequence(...parts);
      let part = this.#item(depth);
      for (let counts = this.#counts(); counts; counts = this.#counts()) part = repeat(part, ...counts);
      this.#blanks();
      parts.push(part);
    }
  }

  #item(depth: number): Expression {
    const next = this.#source[this.#at] as string;
    if (this.#take('"')) return text(this.#text());
    if (this.#take('[')) return set(this.#class());
    if (this.#take('(')) {
      if (this.#source[this.#at] === '=') this.#fail("a lookahead '(=' is not supported; remove it");
      this.#blanks();
      const inner = this.#choice(depth + 1);
      if (!this.#take(')')) this.#fail("a '(' is not closed");
      return inner;
    }
    if (this.#take('.')) return set([[0, 0x10ffff]]);
    if (next === '<' || next === '!')
      this.#fail('a token by name or number (<...>) is not supported; write its text');
    const start = this.#at;
    const name = this.#name();
    if (name === undefined) return this.#fail(`unexpected '${next}'`);
    if (this.#source[this.#at] === '(') this.#fail(`'${name}(...)' is not supported`, start);
    if (!this.#used.has(name)) this.#used.set(name, start);
    return rule(this.#nameOf(name));
  }

  #counts(): [number, number] | undefined {
    const before = this.#at;
    this.#blanks();
    if (this.#take('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#take('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#take('?')) return [0, 1];
    const found = /^\{\s*(\d{0,7})\s*(,?)\s*(\d{0,7})\s*\}/.exec(this.#source.slice(this.#at, this.#at + 40));
    if (!found) {
      if (this.#source[this.#at] === '{') this.#fail('expected {m}, {m,}, {,n} or {m,n}');
      this.#at = before;
      return undefined;
    }
    const [, first = '', separator, last = ''] = found;
    if (first === '' && last === '') this.#fail('a repetition without a number');
    const min = Number(first);
    const max = separator === '' ? min : last === '' ? Number.POSITIVE_INFINITY : Number(last);
    if (min > max) this.#fail(`{${min},${max}}: the lower bound is larger than the upper one`);
    if (min > mostRepeats || (max > mostRepeats && max !== Number.POSITIVE_INFINITY))
      this.#fail(`more than ${mostRepeats} repetitions`);
    this.#at += found[0].length;
    return [min, max];
  }

  #text(): string {
    const codes: string[] = [];
    for (;;) {
      const character = this.#character("a '\"' is not closed");
      if (character === undefined) return codes.join('');
      codes.push(String.fromCodePoint(character));
    }
  }

  /** @returns undefined at the closing quote */
  #character(unclosed: string, end = '"'): number | undefined {
    const code = this.#source.codePointAt(this.#at);
    if (code === undefined) return this.#fail(unclosed);
    if (this.#take(end)) return undefined;
    this.#at += code > 0xffff ? 2 : 1;
    if (code !== 0x5c) return this.#scalar(code);
    const escape = this.#source[this.#at++] ?? '';
    const length = hexadecimal[escape];
    if (length !== undefined) {
      const digits = this.#source.slice(this.#at, this.#at + length);
      if (digits.length < length || !/^[0-9a-fA-F]+$/.test(digits))
        this.#fail(`'\\${escape}' needs ${length} hexadecimal digits`);
      this.#at += length;
      return this.#scalar(Number.parseInt(digits, 16));
    }
    const control = escapes[escape];
    if (control !== undefined) return control;
    if (/[a-zA-Z0-9]/.test(escape) || escape === '') this.#fail(`'\\${escape}' is an unknown escape`);
    return escape.codePointAt(0);
  }

  #scalar(code: number): number {
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
      this.#fail(`U+${code.toString(16).toUpperCase()} is not a character`);
    return code;
  }

  #class(): CodePoints {
    const negated = this.#take('^');
    const ranges: [number, number][] = [];
    const unclosed = "a '[' is not closed";
    for (;;) {
      const first = this.#character(unclosed, ']');
      if (first === undefined) break;
      if (this.#source[this.#at] !== '-' || this.#source[this.#at + 1] === ']') {
        ranges.push([first, first]);
        continue;
      }
      this.#at++;
      const last = this.#character(unclosed, ']') ?? first;
      if (last < first) this.#fail('the first character of a range is after its last');
      ranges.push([first, last]);
    }
    const found = codePoints(ranges);
    return negated ? complement(found) : found;
  }

  #name(): string | undefined {
    const found = /^[A-Za-z_][A-Za-z0-9_.-]*/.exec(this.#source.slice(this.#at, this.#at + 200));
    if (!found) return undefined;
    this.#at += found[0].length;
    return found[0];
  }

  /** Whether a new rule starts at the current position. */
  #atRule(): boolean {
    return /^[A-Za-z_][A-Za-z0-9_.-]*\s*::=/.test(this.#source.slice(this.#at, this.#at + 300));
  }

  #nameOf(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const reserved = this.#rules.reserve('rule');
    this.#names.set(name, reserved);
    return reserved;
  }

  #blanks(): void {
    for (;;) {
      while (/\s/.test(this.#source[this.#at] ?? '')) this.#at++;
      if (this.#source[this.#at] !== '#') return;
      while (this.#at < this.#source.length && this.#source[this.#at] !== '\n') this.#at++;
    }
  }

  #take(token: string): boolean {
    if (!this.#source.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  #fail(what: string, at = this.#at): never {
    const line = this.#source.slice(0, at).split('\n').length;
    throw new GrammarError('invalid_grammar', `the grammar, line ${line}: ${what}`);
  }
}
