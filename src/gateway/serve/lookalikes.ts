import { invalidRequest } from '../../wires/core/error.ts';

/** Members that decide what a request costs, or where it goes. */
const decisive = new Set([
  'model',
  'models',
  'messages',
  'input',
  'prompt',
  'system',
  'instructions',
  'tools',
  'n',
  'best_of',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'stream',
  'stream_options',
  'service_tier',
  'dimensions',
]);

/** As parsers fold names that do not mind capitals: `ſ` is an s to them, and the Kelvin sign a k. */
const folded = (name: string): string => name.toUpperCase().toLowerCase();

/**
 * Some providers take `MAX_TOKENS` for `max_tokens`, so that they would do what was not reckoned with here.
 * @throws WireError 400
 */
export function refuseLookalikes(body: Readonly<Record<string, unknown>>): void {
  for (const name of Object.keys(body)) {
    const meant = folded(name);
    if (name === meant || !decisive.has(meant)) continue;
    throw invalidRequest(`'${name}' is not a member of a request; write '${meant}'.`, {
      param: name,
      code: 'unknown_member',
    });
  }
}
