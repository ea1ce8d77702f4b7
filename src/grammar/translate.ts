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
  /** A grammar that XGrammar accepts. It must be valid, because XGrammar aborts on invalid input. */
  readonly text: string;
  /** The string lengths of its length marks, by index. */
  readonly lengths: readonly Lengths[];
}

/**
 * Translates a grammar source to XGrammar's EBNF.
 * @param allowLengthMarks use length marks for string lengths; otherwise rules count characters, which matches much
 *   slower
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
      schema ? 'JSON schema: no value matches it; look for contradictions.' : 'no text matches the grammar',
      schema ? { path: '' } : {},
    );
  }
  if (printed.length > mostBytes)
    throw new GrammarError('grammar_too_complex', `the grammar has more than ${mostBytes} characters`);
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
