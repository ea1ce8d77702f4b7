/** A part of a text: plain text from `start` to `end`, or a special token with its `id`. */
export interface Fragment {
  readonly start: number;
  readonly end: number;
  readonly id?: number;
}

/** Special tokens that affect the surrounding text, as `lstrip`, `rstrip` and `single_word` of tokenizer.json. */
export interface AddedTokenFlags {
  /** Tokens that remove the white space before or after them. */
  readonly stripsLeft: ReadonlySet<number>;
  readonly stripsRight: ReadonlySet<number>;
  /** Tokens that are plain text when a letter or digit is adjacent. */
  readonly singleWords: ReadonlySet<number>;
}

interface TrieNode {
  /** Children by code unit. */
  readonly children: Map<number, TrieNode>;
  id?: number;
}

/** Finds tokens that are written in a text: the leftmost first, and the longest of those that start there. */
export class SpecialTokenMatcher {
  readonly #root: TrieNode = { children: new Map() };
  readonly #flags: AddedTokenFlags;
  readonly #isSpecial: (id: number) => boolean;
  /** 1 for code units that some token starts with. */
  readonly #firstUnits = new Uint8Array(0x10000);

  /** @param isSpecial returns whether a token must not be recognized in literal ranges of a text */
  constructor(
    tokens: Iterable<readonly [id: number, text: string]>,
    flags: AddedTokenFlags,
    isSpecial: (id: number) => boolean,
  ) {
    this.#flags = flags;
    this.#isSpecial = isSpecial;
    for (const [id, text] of tokens) {
      if (text === '') continue;
      this.#firstUnits[text.charCodeAt(0)] = 1;
      let node = this.#root;
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i);
        let child = node.children.get(unit);
        if (!child) {
          child = { children: new Map() };
          node.children.set(unit, child);
        }
        node = child;
      }
      node.id ??= id;
    }
  }

  /**
   * Splits a text into non-empty fragments in order.
   * @param literalRanges ranges in order in which special tokens are not recognized
   */
  split(text: string, literalRanges: readonly (readonly [start: number, end: number])[] = []): Fragment[] {
    const fragments: Fragment[] = [];
    let start = 0;
    let at = 0;
    let nextLiteral = 0;
    while (at < text.length) {
      while ((literalRanges[nextLiteral]?.[1] ?? Number.POSITIVE_INFINITY) <= at) nextLiteral++;
      const before = literalRanges[nextLiteral]?.[0] ?? Number.POSITIVE_INFINITY;
      const found =
        this.#firstUnits[text.charCodeAt(at)] === 1 ? this.#findLongestAt(text, at, before) : undefined;
      if (!found) {
        at++;
        continue;
      }
      if (this.#flags.singleWords.has(found.id) && !standsAlone(text, found)) {
        at = found.end;
        continue;
      }
      let end = at;
      if (this.#flags.stripsLeft.has(found.id)) while (end > start && isSpace(text, end - 1)) end--;
      if (end > start) fragments.push({ start, end });
      fragments.push(found);
      at = found.end;
      if (this.#flags.stripsRight.has(found.id)) while (isSpace(text, at)) at++;
      start = at;
    }
    if (start < text.length) fragments.push({ start, end: text.length });
    return fragments;
  }

  /** @param before start of the next literal range; special tokens must end before it */
  #findLongestAt(text: string, start: number, before: number): Required<Fragment> | undefined {
    let found: Required<Fragment> | undefined;
    let node: TrieNode | undefined = this.#root;
    for (let at = start; at < text.length; at++) {
      node = node.children.get(text.charCodeAt(at));
      if (!node) break;
      const { id } = node;
      if (id === undefined || (at >= before && this.#isSpecial(id))) continue;
      found = { start, end: at + 1, id };
    }
    return found;
  }
}

function isSpace(text: string, at: number): boolean {
  return /\p{White_Space}/u.test(text.charAt(at));
}

const letterBefore = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]$/u;
const letterAfter = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;

function standsAlone(text: string, { start, end }: Fragment): boolean {
  return (
    !letterBefore.test(text.slice(Math.max(0, start - 2), start)) &&
    !letterAfter.test(text.slice(end, end + 2))
  );
}
