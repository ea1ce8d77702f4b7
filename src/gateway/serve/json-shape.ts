import { invalidRequest } from '../errors.ts';

/** Deeper than any schema or document is: what walks a value recursively stays far from the end of the stack. */
const mostDepth = 200;
/** Small values are many times as large in memory as in a body. */
const mostValues = 400_000;

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;

/**
 * Looks at a JSON text before it is parsed: what is built of it must not outgrow memory nor the stack. Texts that are no
 * JSON pass. Its time is that of finding the quotes.
 * @throws GatewayError 400
 */
export function checkShape(text: string): void {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
      if (at < 0) return;
    } else if (code === comma) values++;
    // [ or {, then ] or }
    else if (code === 0x5b || code === 0x7b) {
      values++;
      if (++depth > mostDepth)
        throw invalidRequest(`The body is nested more than ${mostDepth} levels deep.`, {
          code: 'json_too_deep',
        });
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  if (values > mostValues)
    throw invalidRequest(
      `The body holds more than ${mostValues} values; send texts as texts, or less in one request.`,
      { code: 'json_too_large' },
    );
}

/** @param at of the opening quote @returns of the closing one; -1 where there is none */
function endOfString(text: string, at: number): number {
  let end = at;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return -1;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return end;
  }
}
