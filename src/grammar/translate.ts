import { choice, text } from './ebnf/expression.ts';
import { addEbnfGrammar } from './ebnf/read-ebnf.ts';
import type { LengthBounds } from './ebnf/length-marks.ts';
import { GrammarBuilder } from './ebnf/grammar-builder.ts';
import { addJsonObject, addJsonSchema } from './json-schema/index.ts';
import { parseRegex } from './regex/parse-regex.ts';
import { addStructuralFormat } from './structural.ts';
import { GrammarError, type GrammarSource } from './types.ts';

const maxBytes = 4 * 2 ** 20;

export interface Translation {
  /** A grammar that XGrammar accepts. It must be valid, because XGrammar aborts on invalid input. */
  readonly text: string;
  /** The string lengths of its length marks, by index. */
  readonly lengths: readonly LengthBounds[];
}

/**
 * Translates a grammar source to XGrammar's EBNF.
 * @param allowLengthMarks use length marks for string lengths; otherwise rules count characters, which matches much
 *   slower
 * @throws GrammarError
 */
export function translateToXGrammar(
  source: GrammarSource,
  { allowLengthMarks }: { allowLengthMarks: boolean },
): Translation {
  const builder = new GrammarBuilder(allowLengthMarks);
  const grammarText = builder.print(addSource(builder, source));
  if (grammarText === undefined) {
    if (builder.conflict) throw builder.conflict;
    const schema = source.kind === 'json_schema';
    throw new GrammarError(
      schema ? 'unsupported_schema' : 'invalid_grammar',
      schema ? 'JSON schema: no value matches it; look for contradictions.' : 'no text matches the grammar',
      schema ? { path: '' } : {},
    );
  }
  if (grammarText.length > maxBytes)
    throw new GrammarError('grammar_too_complex', `the grammar has more than ${maxBytes} characters`);
  return { text: grammarText, lengths: builder.lengthBounds };
}

function addSource(builder: GrammarBuilder, source: GrammarSource): string {
  switch (source.kind) {
    case 'json':
      return addJsonObject(builder);
    case 'json_schema':
      return addJsonSchema(builder, source.schema);
    case 'ebnf':
      return addEbnfGrammar(builder, source.text, source.root);
    case 'regex':
      return builder.add('regex', parseRegex(source.pattern, 'whole'));
    case 'choice':
      if (source.texts.length === 0)
        throw new GrammarError('invalid_grammar', 'a choice needs at least one text');
      return builder.add('choice', choice(...source.texts.map(text)));
    case 'structural':
      return addStructuralFormat(builder, source.format);
  }
}
