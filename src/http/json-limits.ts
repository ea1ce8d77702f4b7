/** The limits of a JSON text that is parsed. */
export interface JsonLimits {
  /** Levels of arrays and objects; schemas and conversations of real clients have a few dozen. */
  readonly maxDepth: number;
  /** Arrays, objects, members and elements: a small value is many times as large in memory as in a text. */
  readonly maxValues: number;
  /** Elements that are numbers count, too. Token ids come by the million, and cost little. */
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
 * Looks at a JSON text before it is parsed: what is built of it must not outgrow the stack of those who walk it, nor
 * memory, nor take seconds in which nobody else is served. Takes as long as finding the quotes. A text that is no JSON
 * may pass.
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
