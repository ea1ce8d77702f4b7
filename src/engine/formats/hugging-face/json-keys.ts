/** Strings and brackets; whatever else is in a JSON text does not change what is a key. */
const tokens = /"(?:[^"\\]|\\.)*"\s*:?|[{}[\]]/g;

/** The keys of a JSON object as its text has them, equal ones as often as they are there. */
export const topLevelKeys = function* (json: string): Generator<string> {
  let depth = 0;
  for (const [token] of json.matchAll(tokens)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && token.endsWith(':')) yield JSON.parse(token.slice(0, -1)) as string;
  }
};
