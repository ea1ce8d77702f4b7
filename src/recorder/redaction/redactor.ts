import { RE2JS } from 're2js';
import type { TimeBudget } from './time-budget.ts';
import { base64Fragments } from './base64.ts';
import { mintedSecrets, redactionSets } from './sets.ts';
import { decodeEscapes } from './decode-escapes.ts';

export const redactedMarker = '[redacted]';

/** Start and end in UTF-16 units. */
type Range = readonly [number, number];
type RangeFinder = (text: string, found: Range[], budget: TimeBudget | undefined) => void;

/** Minimum length of a secret: shorter ones occur in ordinary words. */
const minSecretLength = 4;

/** Replaces secrets and policy matches in texts. */
export class Redactor {
  readonly #finders: readonly RangeFinder[];
  readonly #secretNamePatterns: readonly RegExp[];

  /**
   * @param expressions `redact` of a validated policy
   * @param secrets always redacted, also when encoded for a URL, JSON or base64; secrets minted by hosts are redacted,
   * too
   */
  constructor(expressions: readonly string[], secrets: readonly string[]) {
    const sets = expressions
      .map((expression) => redactionSets[expression])
      .filter((set) => set !== undefined);
    const own = expressions.filter((expression) => !Object.hasOwn(redactionSets, expression));
    const spellings = new Set(
      secrets.filter((secret) => secret.length >= minSecretLength).flatMap(secretSpellings),
    );
    this.#secretNamePatterns = sets.map((set) => set.names).filter((names) => names !== undefined);
    this.#finders = [
      ...[...spellings].map(findLiteral),
      ...mintedSecrets.map((pattern) => findPattern(pattern, '')),
      ...sets.flatMap(({ needs = '', patterns }) => patterns.map((pattern) => findPattern(pattern, needs))),
      ...own.map(findExpression),
    ];
  }

  /** Whether an attribute of this name holds a secret. */
  isSecretName(name: string): boolean {
    return this.#secretNamePatterns.some((names) => names.test(name));
  }

  #findRanges(text: string, budget: TimeBudget | undefined): Range[] {
    const found: Range[] = [];
    for (const find of this.#finders) {
      budget?.assertNotExceeded();
      find(text, found, budget);
    }
    return found;
  }

  /**
   * Redacts a text. Also finds matches that appear only after decoding escapes such as `\u0073` and `%73`.
   * @throws RedactionTimeoutError
   */
  redact(text: string, budget?: TimeBudget): { readonly text: string; readonly count: number } {
    const found = this.#findRanges(text, budget);
    const decoded = decodeEscapes(text);
    if (decoded)
      for (const [from, to] of this.#findRanges(decoded.text, budget))
        found.push([decoded.sourceIndices[from] ?? 0, decoded.sourceIndices[to] ?? text.length]);
    if (found.length === 0) return { text, count: 0 };
    found.sort(([a], [b]) => a - b);
    let clean = '';
    let done = 0;
    let count = 0;
    let last = -1;
    for (const [from, to] of found) {
      if (from >= last) {
        clean += text.slice(done, from) + redactedMarker;
        count++;
      }
      last = Math.max(last, to);
      done = last;
    }
    return { text: clean + text.slice(done), count };
  }
}

function secretSpellings(secret: string): string[] {
  const encoded = secret.isWellFormed() ? encodeURIComponent(secret) : secret;
  const quoted = JSON.stringify(secret).slice(1, -1);
  return [secret, encoded, quoted, quoted.replaceAll('/', '\\/'), ...base64Spellings(secret)];
}

/** Base64 forms of a secret. Shorter pieces are left out because they occur by chance. */
const base64Spellings = (secret: string): string[] =>
  base64Fragments(Buffer.from(secret)).filter(({ length }) => length >= 2 * minSecretLength);

const findLiteral =
  (secret: string): RangeFinder =>
  (text, found) => {
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1))
      found.push([at, at + secret.length]);
  };

const findPattern =
  (pattern: RegExp, needs: string): RangeFinder =>
  (text, found) => {
    if (!text.includes(needs)) return;
    for (const match of text.matchAll(pattern)) found.push([match.index, match.index + match[0].length]);
  };

/** `test` first: it takes a twentieth of the time of finding a match. */
function findExpression(expression: string): RangeFinder {
  const compiled = RE2JS.compile(expression);
  return (text, found, budget) => {
    if (!compiled.test(text)) return;
    const matcher = compiled.matcher(text);
    while (matcher.find()) {
      budget?.assertNotExceeded();
      if (matcher.end() > matcher.start()) found.push([matcher.start(), matcher.end()]);
    }
  };
}
