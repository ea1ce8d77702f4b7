import type { GrammarErrorCode } from '../../grammar/types.ts';
import { HttpError } from '../../http/error.ts';

const codes: readonly string[] = [
  'unsupported_schema',
  'invalid_grammar',
  'grammar_too_complex',
] satisfies GrammarErrorCode[];

/**
 * Adds the request member of a refused grammar to its error: `guided_json/properties/a`.
 * @param memberOf called only where a grammar was refused, because finding the tool at fault is slow
 */
export function withGrammarMember(error: unknown, memberOf: () => string): unknown {
  if (!(error instanceof HttpError) || !codes.includes(error.code ?? '')) return error;
  return new HttpError(error.status, error.code, error.message, {
    param: `${memberOf()}${error.param ?? ''}`,
  });
}
