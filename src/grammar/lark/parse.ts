import { commonTerminals } from './common-terminals.ts';
import { larkError, type LarkToken, readLarkTokens } from './lexer.ts';

/** An expression of a Lark rule. */
export type LarkExpression =
  /** A regular expression. */
  | { readonly type: 'pattern'; readonly pattern: string }
  | { readonly type: 'name'; readonly name: string; readonly line: number }
  | { readonly type: 'sequence' | 'choice'; readonly elements: readonly LarkExpression[] }
  /** @param max undefined: any number */
  | {
      readonly type: 'repeat';
      readonly element: LarkExpression;
      readonly min: number;
      readonly max: number | undefined;
    };

export interface LarkGrammar {
  /** Rules in lower case, terminals in upper case. */
  readonly rules: ReadonlyMap<string, { readonly expression: LarkExpression; readonly line: number }>;
  /** Terminals that may stand between any two terminals. */
  readonly ignored: readonly LarkExpression[];
}

/** Parses a Lark grammar. @throws GrammarError with the line, also for what is not supported */
export const parseLark = (source: string): LarkGrammar => new Parser(readLarkTokens(source)).parse();

class Parser {
  readonly #tokens: readonly LarkToken[];
  readonly #rules = new Map<string, { expression: LarkExpression; line: number }>();
  readonly #ignored: LarkExpression[] = [];
  #at = 0;

  constructor(tokens: readonly LarkToken[]) {
    this.#tokens = tokens;
  }

  parse(): LarkGrammar {
    for (;;) {
      while (this.#peek()?.type === 'newline') this.#at++;
      const token = this.#peek();
      if (!token) return { rules: this.#rules, ignored: this.#ignored };
      if (token.type === 'directive') this.#directive();
      else if (token.type === 'rule' || token.type === 'terminal') this.#definition();
      else throw larkError(token.line, `expected a rule, got '${token.text}'`);
    }
  }

  #definition(): void {
    const { text, line } = this.#next();
    const name = text.replace(/^[?!]+/, '');
    if (this.#isOperator('{')) throw larkError(line, `templates such as '${name}{...}' are not supported`);
    if (this.#accept('.')) this.#number();
    this.#expect(':');
    this.#define(name, this.#choice(), line);
    const end = this.#peek();
    if (end && end.type !== 'newline') throw larkError(end.line, `'${end.text}' was not expected here`);
  }

  #define(name: string, expression: LarkExpression, line: number): void {
    if (this.#rules.has(name)) throw larkError(line, `'${name}' is defined twice`);
    this.#rules.set(name, { expression, line });
  }

  #directive(): void {
    const { text, line } = this.#next();
    if (text === '%ignore') {
      this.#ignored.push(this.#choice());
      return;
    }
    if (text !== '%import') throw larkError(line, `${text} is not supported`);
    const module = this.#next().text;
    const names = this.#isOperator('(') ? this.#names() : [];
    while (this.#accept('.')) names.push(this.#next().text);
    if (module !== 'common' || names.length === 0)
      throw larkError(line, 'only the terminals of `common` can be imported');
    const alias = this.#accept('->') ? this.#next().text : undefined;
    for (const name of names) {
      const pattern = commonTerminals[name];
      if (pattern === undefined) throw larkError(line, `\`common\` has no terminal '${name}'`);
      this.#define(alias ?? name, { type: 'pattern', pattern }, line);
    }
  }

  #names(): string[] {
    this.#expect('(');
    const names = [this.#next().text];
    while (this.#accept(',')) names.push(this.#next().text);
    this.#expect(')');
    return names;
  }

  #choice(): LarkExpression {
    const elements = [this.#sequence()];
    while (this.#acceptBar()) elements.push(this.#sequence());
    return elements.length === 1 ? (elements[0] as LarkExpression) : { type: 'choice', elements };
  }

  /** A `|`, which may stand at the beginning of a later line. */
  #acceptBar(): boolean {
    let at = this.#at;
    while (this.#tokens[at]?.type === 'newline') at++;
    if (this.#tokens[at]?.text !== '|') return false;
    this.#at = at + 1;
    return true;
  }

  #sequence(): LarkExpression {
    const elements: LarkExpression[] = [];
    for (let token = this.#peek(); token && token.type !== 'newline'; token = this.#peek()) {
      if (token.type === 'operator' && !'(['.includes(token.text)) break;
      elements.push(this.#repeated());
    }
    // Names an alternative in Lark's tree.
    if (this.#accept('->')) this.#next();
    return elements.length === 1 ? (elements[0] as LarkExpression) : { type: 'sequence', elements };
  }

  #repeated(): LarkExpression {
    const element = this.#atom();
    if (this.#accept('*')) return { type: 'repeat', element, min: 0, max: undefined };
    if (this.#accept('+')) return { type: 'repeat', element, min: 1, max: undefined };
    if (this.#accept('?')) return { type: 'repeat', element, min: 0, max: 1 };
    if (!this.#accept('~')) return element;
    const min = this.#number();
    return { type: 'repeat', element, min, max: this.#accept('..') ? this.#number() : min };
  }

  #atom(): LarkExpression {
    const token = this.#next();
    const { type, text, line } = token;
    if (text === '(' || text === '[') {
      const inner = this.#choice();
      while (this.#peek()?.type === 'newline') this.#at++;
      this.#expect(text === '(' ? ')' : ']');
      return text === '(' ? inner : { type: 'repeat', element: inner, min: 0, max: 1 };
    }
    if (type === 'rule' || type === 'terminal')
      return { type: 'name', name: text.replace(/^[?!]+/, ''), line };
    if (type === 'string') {
      if (!this.#accept('..')) return { type: 'pattern', pattern: stringPattern(token) };
      return { type: 'pattern', pattern: `[${classEnd(token)}-${classEnd(this.#next())}]` };
    }
    if (type === 'regex') return { type: 'pattern', pattern: regexPattern(token) };
    throw larkError(line, `'${text}' was not expected here`);
  }

  #peek(): LarkToken | undefined {
    return this.#tokens[this.#at];
  }

  #next(): LarkToken {
    const token = this.#tokens[this.#at++];
    if (!token) throw larkError(this.#tokens.at(-1)?.line ?? 1, 'the grammar ends too early');
    return token;
  }

  #isOperator(text: string): boolean {
    const token = this.#peek();
    return token?.type === 'operator' && token.text === text;
  }

  #accept(text: string): boolean {
    if (!this.#isOperator(text)) return false;
    this.#at++;
    return true;
  }

  #expect(text: string): void {
    const token = this.#next();
    if (token.text !== text) throw larkError(token.line, `expected '${text}', got '${token.text}'`);
  }

  #number(): number {
    const { type, text, line } = this.#next();
    if (type !== 'number' || text.length > 4)
      throw larkError(line, `expected a number up to 9999, got '${text}'`);
    return Number(text);
  }
}

/** The characters of a string of Lark, whose escapes are those of Python. */
function textOf({ text, line }: LarkToken): string {
  const inner = text.slice(1, text.lastIndexOf('"'));
  try {
    return JSON.parse(
      `"${inner.replaceAll(/\\(x[0-9a-fA-F]{2}|.)/g, (escape, kind: string) =>
        kind.startsWith('x') ? `\\u00${kind.slice(1)}` : /["\\/bfnrtu]/.test(kind) ? escape : `\\\\${kind}`,
      )}"`,
    ) as string;
  } catch {
    throw larkError(line, `${text} is not a valid string`);
  }
}

const escapeCharacter = (character: string): string =>
  /[\\^$.*+?()[\]{}|/-]/.test(character) ? `\\${character}` : character;

function stringPattern(token: LarkToken): string {
  const isCaseless = token.text.endsWith('i');
  const characters = Array.from(textOf(token), (character) => {
    const [lower, upper] = [character.toLowerCase(), character.toUpperCase()];
    return isCaseless && lower !== upper ? `[${lower}${upper}]` : escapeCharacter(character);
  });
  return `(?:${characters.join('')})`;
}

function classEnd(token: LarkToken): string {
  const characters = token.type === 'string' ? Array.from(textOf(token)) : [];
  if (characters.length !== 1)
    throw larkError(token.line, `a range needs one character on each side, got ${token.text}`);
  return escapeCharacter(characters[0] ?? '');
}

function regexPattern({ text, line }: LarkToken): string {
  const end = text.lastIndexOf('/');
  const flags = text.slice(end + 1);
  if (/[^u]/.test(flags))
    throw larkError(line, `the flags '${flags}' of a regular expression are not supported`);
  return `(?:${text.slice(1, end)})`;
}
