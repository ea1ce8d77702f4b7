import type { GrammarErrorCode } from '../../grammar/types.ts';
import { HttpError } from '../../http/error.ts';

const codes: readonly string[] = [
  'unsupported_schema',
  'invalid_grammar',
  'grammar_too_complex',
] satisfies GrammarErrorCode[];

/**
 * A refused grammar, told with the member that it came from: `guided_json/properties/a`.
 * @param memberOf asked only where a grammar was refused: to find a tool at fault takes a while
 */
export function namingGrammar(error: unknown, memberOf: () => string): unknown {
  if (!(error instanceof HttpError) || !codes.includes(error.code ?? '')) return error;
  return new HttpError(error.status, error.code, error.message, {
    param: `${memberOf()}${error.param ?? ''}`,
  });
}
