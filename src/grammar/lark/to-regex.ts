import { GrammarError } from '../types.ts';
import { larkError } from './lexer.ts';
import { type LarkExpression, type LarkGrammar, parseLark } from './parse.ts';

/** Longer expressions are refused: rules that use others several times grow exponentially. */
const maxPatternChars = 64 * 1024;

/**
 * Writes a Lark grammar as a regular expression, which matches the same texts. Rules may use each other, but not
 * themselves.
 * @throws GrammarError with the line of what is wrong or not supported
 */
export function larkToRegex(source: string): string {
  const grammar = parseLark(source);
  const ignored = grammar.ignored.map((expression) => new Writer(grammar, '').write(expression, [], true));
  const skip = ignored.length === 0 ? '' : `(?:${ignored.join('|')})*`;
  const writer = new Writer(grammar, skip);
  return skip + writer.write({ type: 'name', name: 'start', line: 1 }, [], false);
}

class Writer {
  readonly #grammar: LarkGrammar;
  /** What may follow every terminal. */
  readonly #skip: string;
  readonly #written = new Map<string, string>();

  constructor(grammar: LarkGrammar, skip: string) {
    this.#grammar = grammar;
    this.#skip = skip;
  }

  /**
   * @param users rules that are being written, the innermost last
   * @param isTerminal within a terminal, where nothing is ignored
   */
  write(expression: LarkExpression, users: readonly string[], isTerminal: boolean): string {
    const text = this.#write(expression, users, isTerminal);
    if (text.length > maxPatternChars)
      throw new GrammarError('grammar_too_complex', 'the Lark grammar is too large as a regular expression');
    return text;
  }

  #write(expression: LarkExpression, users: readonly string[], isTerminal: boolean): string {
    switch (expression.type) {
      case 'pattern':
        return isTerminal ? expression.pattern : expression.pattern + this.#skip;
      case 'name':
        return this.#writeName(expression, users, isTerminal);
      case 'sequence':
        return expression.elements.map((element) => this.write(element, users, isTerminal)).join('');
      case 'choice':
        return `(?:${expression.elements.map((element) => this.write(element, users, isTerminal)).join('|')})`;
      case 'repeat': {
        const { min, max } = expression;
        return `(?:${this.write(expression.element, users, isTerminal)}){${min},${max ?? ''}}`;
      }
    }
  }

  #writeName(
    { name, line }: Extract<LarkExpression, { type: 'name' }>,
    users: readonly string[],
    isTerminal: boolean,
  ): string {
    const rule = this.#grammar.rules.get(name);
    if (!rule) throw larkError(line, `there is no rule '${name}'`);
    if (users.includes(name))
      throw larkError(
        rule.line,
        `the rule '${name}' uses itself; only rules without recursion are supported`,
      );
    const isInnermost = !isTerminal && name === name.toUpperCase();
    const key = `${isTerminal} ${name}`;
    let text = this.#written.get(key);
    if (text === undefined) {
      text = `(?:${this.write(rule.expression, [...users, name], isTerminal || isInnermost)})`;
      this.#written.set(key, text);
    }
    return isInnermost ? text + this.#skip : text;
  }
}
