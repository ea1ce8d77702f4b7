/** Limits for JSON text that is about to be parsed. */
export interface JsonLimits {
  /** Nesting depth of arrays and objects. Schemas and conversations of real clients need a few dozen. */
  readonly maxDepth: number;
  /** Count of arrays, objects, members and elements. A small value takes many times more memory than its text. */
  readonly maxValues: number;
  /** Whether array elements count. Where they do not, token ids may come by the million at little cost. */
  readonly countsElements: boolean;
}

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Checks a JSON text before it is parsed, so that the result cannot overflow the stack of code that walks it, exhaust
 * memory, or block the event loop for seconds. Costs about as much as finding the quotes. Text that is not JSON may
 * pass.
 */
export function exceedsJsonLimits(
  text: string,
  { maxDepth, maxValues, countsElements }: JsonLimits,
): 'depth' | 'values' | undefined {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
      if (at < 0) break;
    } else if (code === openBracket || code === openBrace) {
      values++;
      if (++depth > maxDepth) return 'depth';
    } else if (code === closeBracket || code === closeBrace) depth--;
    else if (code === (countsElements ? comma : colon)) values++;
  }
  return values > maxValues ? 'values' : undefined;
}

/** @param at offset of the opening quote @returns the offset of the closing quote; -1 where there is none */
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
