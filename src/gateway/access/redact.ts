/** Replaces secrets in a text with `[redacted]`. */
export type Redact = (text: string) => string;

const cut = '[redacted]';

/** Any run of this many characters of a secret is redacted. */
const pieceLength = 8;
/** Shorter texts are not treated as secrets: they would match ordinary words. */
const shortest = 4;
/** Minimum of visible characters, at both ends together, of a masked secret such as `sk-...abcd` or `****abcd`. */
const leastOfMasked = 4;
/** Maximum of visible characters on each side of a mask. */
const mostOfMasked = 64;
const masks = /\.{2,}|…+|\*+|•+|·{2,}|[xX]{4,}|#{3,}|-{4,}|_{4,}|<[a-z]{3,12}>|\[[a-z]{3,12}\]/g;

/** Public prefixes that all keys of a kind share. */
const publicStart = /^(?:lathe_[a-z]+_|sk-ant-(?:api|admin)\d*-|sk-(?:proj|svcacct|or-v1)-)/;

/**
 * Creates a redactor for the secrets of one request (the caller's key and the provider's), for texts that go to callers and
 * logs. It finds them whole, in pieces of eight characters or more, masked as providers echo them, and percent- or
 * JSON-encoded.
 */
export function redactor(...secrets: readonly (string | undefined)[]): Redact {
  const known = secrets
    .filter((secret) => secret !== undefined)
    .filter((secret) => secret.length >= shortest);
  const spellings = [...new Set(known.flatMap(spellingsOf))];
  const pieces = new Map<number, Set<string>>();
  for (const spelling of spellings) {
    const length = Math.min(pieceLength, spelling.length);
    const some = pieces.get(length) ?? new Set();
    pieces.set(length, some);
    const told = publicStart.exec(spelling)?.[0].length ?? 0;
    for (let at = 0; at + length <= spelling.length; at++)
      // Pieces of the public prefix are skipped: they also occur in error codes.
      if (told === 0 || at + length >= told + shortest) some.add(spelling.slice(at, at + length));
  }
  return (text) => {
    const ranges: Range[] = [];
    for (const spelling of spellings)
      for (let at = text.indexOf(spelling); at >= 0; at = text.indexOf(spelling, at + spelling.length))
        ranges.push([at, at + spelling.length]);
    for (const [length, some] of pieces)
      for (let at = 0; at + length <= text.length; at++)
        if (some.has(text.slice(at, at + length))) ranges.push([at, at + length]);
    for (const mask of text.matchAll(masks))
      for (const spelling of spellings) {
        const range = maskedAt(text, mask.index, mask.index + mask[0].length, spelling);
        if (range !== undefined) ranges.push(range);
      }
    return without(text, ranges);
  };
}

/** Start and end, in characters. */
type Range = readonly [number, number];

function spellingsOf(secret: string): string[] {
  const encoded = secret.isWellFormed() ? encodeURIComponent(secret) : secret;
  const quoted = JSON.stringify(secret).slice(1, -1);
  return [secret, encoded, quoted, quoted.replaceAll('/', '\\/')];
}

/** The range of a masked secret: its beginning, the mask, its end; undefined if the text around the mask is not a secret. */
function maskedAt(text: string, from: number, to: number, secret: string): Range | undefined {
  const most = Math.min(mostOfMasked, secret.length - 1);
  let before = most;
  while (before > 0 && !(from >= before && text.startsWith(secret.slice(0, before), from - before))) before--;
  let after = most;
  while (after > 0 && !text.startsWith(secret.slice(-after), to)) after--;
  return before + after >= leastOfMasked ? [from - before, to + after] : undefined;
}

function without(text: string, ranges: Range[]): string {
  if (ranges.length === 0) return text;
  ranges.sort(([a], [b]) => a - b);
  let safe = '';
  let done = 0;
  for (const [from, to] of ranges) {
    if (from >= done && !(from === done && safe.endsWith(cut))) safe += text.slice(done, from) + cut;
    done = Math.max(done, to);
  }
  return safe + text.slice(done);
}
