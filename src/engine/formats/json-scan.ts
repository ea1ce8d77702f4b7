/** Deeper than any model file nests, and shallow enough for recursive readers. */
const maxDepth = 200;

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

const openList = 0x5b;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

const isSpace = (code: number): boolean => code === 0x20 || (code >= 0x09 && code <= 0x0d);

/** Returns the index after the closing quote of the string that starts at `start`. */
const findStringEnd = (json: string, start: number): number => {
  let at = start + 1;
  while (at < json.length) {
    const code = json.charCodeAt(at);
    if (code === quote) return at + 1;
    at += code === backslash ? 2 : 1;
  }
  return at;
};

/**
 * Whether brackets nest deeper than 200 levels. Recursive readers of such a file could overflow the stack.
 * @param json UTF-8 bytes
 */
export const exceedsMaxDepth = (json: Uint8Array): boolean => {
  let depth = 0;
  let inString = false;
  // Hot loop: tokenizer files have 30 MB, so it reads every byte once and calls no function.
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]!;
    if (inString) {
      if (byte === backslash) at += 1;
      else if (byte === quote) inString = false;
    } else if (byte === quote) inString = true;
    else if (byte === openList || byte === openObject) {
      depth += 1;
      if (depth > maxDepth) return true;
    } else if (byte === closeList || byte === closeObject) depth -= 1;
  }
  return false;
};

/** Yields the top-level keys of a JSON object in source order, including duplicates. */
export const topLevelKeys = function* (json: string): Generator<string> {
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === openList || code === openObject) depth += 1;
    else if (code === closeList || code === closeObject) depth -= 1;
    if (code !== quote) continue;
    const start = at;
    const end = findStringEnd(json, start);
    at = end - 1;
    let next = end;
    while (isSpace(json.charCodeAt(next))) next += 1;
    if (depth === 1 && json.charCodeAt(next) === colon) yield JSON.parse(json.slice(start, end)) as string;
  }
};
