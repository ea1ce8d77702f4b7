import { invalidRequest } from '../../wires/core/error.ts';
import { scanJson } from '../../http/json-scan.ts';

/** Deeper than any schema or document is: what walks a value recursively stays far from the end of the stack. */
const mostDepth = 200;
/** Small values are many times as large in memory as in a body. */
const mostValues = 400_000;

/** @throws WireError 400 where what would be built of a text is too much; a text that is no JSON may pass */
export function checkShape(text: string): void {
  const values = scanJson(text, mostDepth);
  if (values === 'too deep')
    throw invalidRequest(`The body is nested more than ${mostDepth} levels deep.`, { code: 'json_too_deep' });
  if (values > mostValues)
    throw invalidRequest(
      `The body holds more than ${mostValues} values; send texts as texts, or less in one request.`,
      { code: 'json_too_large' },
    );
}
