const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;

/**
 * Looks at a JSON text before it is parsed: what is built of it must not outgrow the stack, nor memory. Its time is that of
 * finding the quotes; of a text that is no JSON it says anything.
 * @returns about how many values there are (names of members not counted), or 'too deep'
 */
export function scanJson(text: string, mostDepth: number): number | 'too deep' {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      at = endOfString(text, at);
      if (at < 0) return values;
    } else if (code === comma) values++;
    // [ or {, then ] or }
    else if (code === 0x5b || code === 0x7b) {
      values++;
      if (++depth > mostDepth) return 'too deep';
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return values;
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
