/** Replaces secrets in a text with `[redacted]`. */
export type Redact = (text: string) => string;

const replacement = '[redacted]';

/** Any run of this many characters of a secret is redacted. */
const minPieceLength = 8;
/** Shorter texts are not treated as secrets: they would match ordinary words. */
const minSecretLength = 4;
/** Minimum of visible characters, at both ends together, of a masked secret such as `sk-...abcd` or `****abcd`. */
const minVisibleOfMasked = 4;
/** Maximum of visible characters on each side of a mask. */
const maxVisiblePerSide = 64;
const maskRegex = /\.{2,}|…+|\*+|•+|·{2,}|[xX]{4,}|#{3,}|-{4,}|_{4,}|<[a-z]{3,12}>|\[[a-z]{3,12}\]/g;

/** Public prefixes that all keys of a kind share. */
const publicPrefix = /^(?:lathe_[a-z]+_|sk-ant-(?:api|admin)\d*-|sk-(?:proj|svcacct|or-v1)-)/;

/**
 * Creates a redactor for the secrets of one request (the caller's key and the provider's), for texts that go to callers and
 * logs. It finds them whole, in pieces of eight characters or more, masked as providers echo them, and percent- or
 * JSON-encoded.
 */
export function createRedactor(...secrets: readonly (string | undefined)[]): Redact {
  const known = secrets
    .filter((secret) => secret !== undefined)
    .filter((secret) => secret.length >= minSecretLength);
  const encodings = [...new Set(known.flatMap(encodingsOf))];
  const pieces = new Map<number, Set<string>>();
  for (const encoding of encodings) {
    const length = Math.min(minPieceLength, encoding.length);
    const pieceSet = pieces.get(length) ?? new Set();
    pieces.set(length, pieceSet);
    const publicLength = publicPrefix.exec(encoding)?.[0].length ?? 0;
    for (let at = 0; at + length <= encoding.length; at++)
      // Pieces of the public prefix are skipped: they also occur in error codes.
      if (publicLength === 0 || at + length >= publicLength + minSecretLength)
        pieceSet.add(encoding.slice(at, at + length));
  }
  return (text) => {
    const ranges: Range[] = [];
    for (const encoding of encodings)
      for (let at = text.indexOf(encoding); at >= 0; at = text.indexOf(encoding, at + encoding.length))
        ranges.push([at, at + encoding.length]);
    for (const [length, pieceSet] of pieces)
      for (let at = 0; at + length <= text.length; at++)
        if (pieceSet.has(text.slice(at, at + length))) ranges.push([at, at + length]);
    for (const mask of text.matchAll(maskRegex))
      for (const encoding of encodings) {
        const range = maskedRange(text, mask.index, mask.index + mask[0].length, encoding);
        if (range !== undefined) ranges.push(range);
      }
    return cutRanges(text, ranges);
  };
}

/** Start and end, in characters. */
type Range = readonly [number, number];

function encodingsOf(secret: string): string[] {
  const encoded = secret.isWellFormed() ? encodeURIComponent(secret) : secret;
  const quoted = JSON.stringify(secret).slice(1, -1);
  return [secret, encoded, quoted, quoted.replaceAll('/', '\\/')];
}

/** The range of a masked secret: its beginning, the mask, its end; undefined if the text around the mask is not a secret. */
function maskedRange(text: string, from: number, to: number, secret: string): Range | undefined {
  const maxVisible = Math.min(maxVisiblePerSide, secret.length - 1);
  let before = maxVisible;
  while (before > 0 && !(from >= before && text.startsWith(secret.slice(0, before), from - before))) before--;
  let after = maxVisible;
  while (after > 0 && !text.startsWith(secret.slice(-after), to)) after--;
  return before + after >= minVisibleOfMasked ? [from - before, to + after] : undefined;
}

function cutRanges(text: string, ranges: Range[]): string {
  if (ranges.length === 0) return text;
  ranges.sort(([a], [b]) => a - b);
  let safe = '';
  let done = 0;
  for (const [from, to] of ranges) {
    if (from >= done && !(from === done && safe.endsWith(replacement)))
      safe += text.slice(done, from) + replacement;
    done = Math.max(done, to);
  }
  return safe + text.slice(done);
}
