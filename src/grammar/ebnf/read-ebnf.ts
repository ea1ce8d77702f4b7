import { GrammarError } from '../types.ts';
import { type CodePoints, normalizeRanges, complement } from './code-points.ts';
import { choice, type Expression, repeat, rule, sequence, set, text } from './expression.ts';
import type { GrammarBuilder } from './grammar-builder.ts';

const maxDepth = 200;
const maxRepeats = 100_000;

/**
 * Parses a grammar in XGrammar's EBNF or llama.cpp's GBNF, which have the same syntax, and adds its rules.
 * @returns the name of the root rule
 * @throws GrammarError `invalid_grammar` with the line
 */
export function addEbnfGrammar(builder: GrammarBuilder, source: string, root = 'root'): string {
  return new EbnfReader(builder, source).read(root);
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
const hexEscapeLengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class EbnfReader {
  readonly #builder: GrammarBuilder;
  readonly #source: string;
  readonly #names = new Map<string, string>();
  readonly #defined = new Set<string>();
  readonly #referenced = new Map<string, number>();
  #position = 0;

  constructor(builder: GrammarBuilder, source: string) {
    this.#builder = builder;
    this.#source = source;
  }

  read(root: string): string {
    this.#skipBlanks();
    while (this.#position < this.#source.length) this.#readRule();
    for (const [name, offset] of this.#referenced) {
      if (!this.#defined.has(name)) this.#fail(`the rule '${name}' is not defined`, offset);
    }
    if (!this.#defined.has(root)) {
      throw new GrammarError(
        'invalid_grammar',
        `the grammar has no start rule '${root}'; its rules are: ${[...this.#defined].slice(0, 20).join(', ') || 'none'}`,
      );
    }
    return this.#ruleNameOf(root);
  }

  #readRule(): void {
    const start = this.#position;
    const name = this.#readName() ?? this.#fail(`expected 'name ::= ...'`);
    this.#skipBlanks();
    if (!this.#consume('::=')) this.#fail(`expected '::=' after '${name}'`);
    if (this.#defined.has(name))
      this.#fail(`the rule '${name}' is defined twice; combine the definitions with '|'`, start);
    this.#defined.add(name);
    this.#skipBlanks();
    const expression = this.#readChoice(0);
    if (this.#position < this.#source.length && !this.#isAtRule())
      this.#fail(`unexpected '${this.#source[this.#position]}'`);
    this.#builder.define(this.#ruleNameOf(name), expression);
  }

  #readChoice(depth: number): Expression {
    if (depth > maxDepth) this.#fail(`groups are nested deeper than ${maxDepth} levels`);
    const options = [this.#readSequence(depth)];
    while (this.#consume('|')) {
      this.#skipBlanks();
      options.push(this.#readSequence(depth));
    }
    return options.length === 1 ? (options[0] as Expression) : choice(...options);
  }

  #readSequence(depth: number): Expression {
    const parts: Expression[] = [];
    for (;;) {
      const next = this.#source[this.#position];
      if (next === undefined || next === '|' || next === ')' || this.#isAtRule()) return sequence(...parts);
      let part = this.#readItem(depth);
      for (let repetition = this.#readRepetition(); repetition; repetition = this.#readRepetition())
        part = repeat(part, ...repetition);
      this.#skipBlanks();
      parts.push(part);
    }
  }

  #readItem(depth: number): Expression {
    const next = this.#source[this.#position] as string;
    if (this.#consume('"')) return text(this.#readText());
    if (this.#consume('[')) return set(this.#readClass());
    if (this.#consume('(')) {
      if (this.#source[this.#position] === '=') this.#fail("a lookahead '(=' is not supported; remove it");
      this.#skipBlanks();
      const inner = this.#readChoice(depth + 1);
      if (!this.#consume(')')) this.#fail("a '(' is not closed");
      return inner;
    }
    if (this.#consume('.')) return set([[0, 0x10ffff]]);
    if (next === '<' || next === '!')
      this.#fail('a token by name or number (<...>) is not supported; write its text');
    const start = this.#position;
    const name = this.#readName();
    if (name === undefined) return this.#fail(`unexpected '${next}'`);
    if (this.#source[this.#position] === '(') this.#fail(`'${name}(...)' is not supported`, start);
    if (!this.#referenced.has(name)) this.#referenced.set(name, start);
    return rule(this.#ruleNameOf(name));
  }

  #readRepetition(): [number, number] | undefined {
    const start = this.#position;
    this.#skipBlanks();
    if (this.#consume('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#consume('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#consume('?')) return [0, 1];
    const match = /^\{\s*(\d{0,7})\s*(,?)\s*(\d{0,7})\s*\}/.exec(
      this.#source.slice(this.#position, this.#position + 40),
    );
    if (!match) {
      if (this.#source[this.#position] === '{') this.#fail('expected {m}, {m,}, {,n} or {m,n}');
      this.#position = start;
      return undefined;
    }
    const [, first = '', separator, last = ''] = match;
    if (first === '' && last === '') this.#fail('a repetition without a number');
    const min = Number(first);
    const max = separator === '' ? min : last === '' ? Number.POSITIVE_INFINITY : Number(last);
    if (min > max) this.#fail(`{${min},${max}}: the lower bound is larger than the upper one`);
    if (min > maxRepeats || (max > maxRepeats && max !== Number.POSITIVE_INFINITY))
      this.#fail(`more than ${maxRepeats} repetitions`);
    this.#position += match[0].length;
    return [min, max];
  }

  #readText(): string {
    const codes: string[] = [];
    for (;;) {
      const codePoint = this.#readCharacter("a '\"' is not closed");
      if (codePoint === undefined) return codes.join('');
      codes.push(String.fromCodePoint(codePoint));
    }
  }

  /** @returns undefined at the closing quote */
  #readCharacter(unclosedMessage: string, end = '"'): number | undefined {
    const code = this.#source.codePointAt(this.#position);
    if (code === undefined) return this.#fail(unclosedMessage);
    if (this.#consume(end)) return undefined;
    this.#position += code > 0xffff ? 2 : 1;
    if (code !== 0x5c) return this.#assertScalar(code);
    const escape = this.#source[this.#position++] ?? '';
    const length = hexEscapeLengths[escape];
    if (length !== undefined) {
      const digits = this.#source.slice(this.#position, this.#position + length);
      if (digits.length < length || !/^[0-9a-fA-F]+$/.test(digits))
        this.#fail(`'\\${escape}' needs ${length} hexadecimal digits`);
      this.#position += length;
      return this.#assertScalar(Number.parseInt(digits, 16));
    }
    const control = escapes[escape];
    if (control !== undefined) return control;
    if (/[a-zA-Z0-9]/.test(escape) || escape === '') this.#fail(`'\\${escape}' is an unknown escape`);
    return escape.codePointAt(0);
  }

  #assertScalar(code: number): number {
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
      this.#fail(`U+${code.toString(16).toUpperCase()} is not a character`);
    return code;
  }

  #readClass(): CodePoints {
    const negated = this.#consume('^');
    const pairs: [number, number][] = [];
    const unclosedMessage = "a '[' is not closed";
    for (;;) {
      const first = this.#readCharacter(unclosedMessage, ']');
      if (first === undefined) break;
      if (this.#source[this.#position] !== '-' || this.#source[this.#position + 1] === ']') {
        pairs.push([first, first]);
        continue;
      }
      this.#position++;
      const last = this.#readCharacter(unclosedMessage, ']') ?? first;
      if (last < first) this.#fail('the first character of a range is after its last');
      pairs.push([first, last]);
    }
    const ranges = normalizeRanges(pairs);
    return negated ? complement(ranges) : ranges;
  }

  #readName(): string | undefined {
    const match = /^[A-Za-z_][A-Za-z0-9_.-]*/.exec(this.#source.slice(this.#position, this.#position + 200));
    if (!match) return undefined;
    this.#position += match[0].length;
    return match[0];
  }

  /** Whether a new rule starts at the current position. */
  #isAtRule(): boolean {
    return /^[A-Za-z_][A-Za-z0-9_.-]*\s*::=/.test(this.#source.slice(this.#position, this.#position + 300));
  }

  #ruleNameOf(name: string): string {
    const existing = this.#names.get(name);
    if (existing !== undefined) return existing;
    const ruleName = this.#builder.reserve('rule');
    this.#names.set(name, ruleName);
    return ruleName;
  }

  #skipBlanks(): void {
    for (;;) {
      while (/\s/.test(this.#source[this.#position] ?? '')) this.#position++;
      if (this.#source[this.#position] !== '#') return;
      while (this.#position < this.#source.length && this.#source[this.#position] !== '\n') this.#position++;
    }
  }

  #consume(token: string): boolean {
    if (!this.#source.startsWith(token, this.#position)) return false;
    this.#position += token.length;
    return true;
  }

  #fail(problem: string, offset = this.#position): never {
    const line = this.#source.slice(0, offset).split('\n').length;
    throw new GrammarError('invalid_grammar', `the grammar, line ${line}: ${problem}`);
  }
}
