import { choice, text } from './ebnf/expression.ts';
import { addGrammar } from './ebnf/read.ts';
import type { Lengths } from './ebnf/marks.ts';
import { Rules } from './ebnf/rules.ts';
import { addJsonObject, addJsonSchema } from './json-schema/index.ts';
import { parseRegex } from './regex/parse.ts';
import { addStructural } from './structural.ts';
import { GrammarError, type GrammarSource } from './types.ts';

const mostBytes = 4 * 2 ** 20;

export interface Translation {
  /** A grammar that XGrammar is sure to read: what it is given wrong, it aborts on. */
  readonly text: string;
  /** What the marks in it mean, by their index. */
  readonly lengths: readonly Lengths[];
}

/**
 * @param counted lengths may be left to marks; without, the text alone says it all, and takes much longer to match
 * @throws GrammarError
 */
export function translate(source: GrammarSource, { counted }: { counted: boolean }): Translation {
  const rules = new Rules(counted);
  const printed = rules.print(add(rules, source));
  if (printed === undefined) {
    if (rules.dead) throw rules.dead;
    const schema = source.kind === 'json_schema';
    throw new GrammarError(
      schema ? 'unsupported_schema' : 'invalid_grammar',
      schema ? 'JSON schema: no value can fit it; look for contradictions.' : 'no text can fit the grammar',
      schema ? { path: '' } : {},
    );
  }
  if (printed.length > mostBytes)
    throw new GrammarError('grammar_too_complex', `the grammar takes more than ${mostBytes} characters`);
  return { text: printed, lengths: rules.lengths };
}

function add(rules: Rules, source: GrammarSource): string {
  switch (source.kind) {
    case 'json':
      return addJsonObject(rules);
    case 'json_schema':
      return addJsonSchema(rules, source.schema);
    case 'ebnf':
      return addGrammar(rules, source.text, source.root);
    case 'regex':
      return rules.add('regex', parseRegex(source.pattern, 'whole'));
    case 'choice':
      if (source.texts.length === 0)
        throw new GrammarError('invalid_grammar', 'a choice needs at least one text');
      return rules.add('choice', choice(...source.texts.map(text)));
    case 'structural':
      return addStructural(rules, source.format);
  }
}
