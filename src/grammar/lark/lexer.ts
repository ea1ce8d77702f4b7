import { GrammarError } from '../types.ts';

/** A token of a Lark grammar, with its line, from 1. */
export interface LarkToken {
  readonly type: 'rule' | 'terminal' | 'string' | 'regex' | 'number' | 'directive' | 'operator' | 'newline';
  readonly text: string;
  readonly line: number;
}

const patterns: readonly (readonly [LarkToken['type'] | 'space', RegExp])[] = [
  ['space', /(?:[ \t\f]|\/\/[^\n]*|#[^\n]*|\\\r?\n)+/y],
  ['newline', /\r?\n/y],
  ['directive', /%[a-z]+/y],
  ['string', /"(?:[^"\\\n]|\\.)*"i?/y],
  ['regex', /\/(?!\/)(?:[^/\\\n]|\\.)+\/[imslux]*/y],
  ['rule', /[?!]*_?[a-z][a-z0-9_]*/y],
  ['terminal', /_?[A-Z][A-Z0-9_]*/y],
  ['number', /\d+/y],
  ['operator', /->|\.\.|[:|()[\]*+?~.,{}-]/y],
];

/** Splits a Lark grammar into tokens. @throws GrammarError */
export function readLarkTokens(source: string): LarkToken[] {
  const tokens: LarkToken[] = [];
  let line = 1;
  for (let at = 0; at < source.length; ) {
    const found = patterns
      .map(([type, pattern]) => {
        pattern.lastIndex = at;
        return { type, text: pattern.exec(source)?.[0] };
      })
      .find(({ text }) => text !== undefined);
    if (found?.text === undefined)
      throw larkError(line, `'${source.slice(at, at + 20).split('\n', 1)[0]}' cannot be read`);
    const { type, text } = found;
    if (type !== 'space') tokens.push({ type, text, line });
    line += text.split('\n').length - 1;
    at += text.length;
  }
  return tokens;
}

export const larkError = (line: number, message: string): GrammarError =>
  new GrammarError('invalid_grammar', `line ${line} of the Lark grammar: ${message}`);
