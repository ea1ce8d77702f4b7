import { invalidRequest } from '../../wires/core/error.ts';

/** Members that determine the cost of a request or its route. */
const costRelevantMembers = new Set([
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

/** Folds a name as case-insensitive parsers do: `ſ` becomes s, and the Kelvin sign becomes k. */
const foldCase = (name: string): string => name.toUpperCase().toLowerCase();

/**
 * Rejects members whose names differ from a cost-relevant member only in case. Some providers read `MAX_TOKENS` as
 * `max_tokens`, so the cost would not be what the gateway calculated.
 * @throws WireError 400
 */
export function rejectMiscasedMembers(body: Readonly<Record<string, unknown>>): void {
  for (const name of Object.keys(body)) {
    const canonicalName = foldCase(name);
    if (name === canonicalName || !costRelevantMembers.has(canonicalName)) continue;
    throw invalidRequest(`Unknown member '${name}'; write '${canonicalName}'.`, {
      param: name,
      code: 'unknown_member',
    });
  }
}
