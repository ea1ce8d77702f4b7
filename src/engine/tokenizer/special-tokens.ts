/** A part of a text: plain text from `start` to `end`, or the special token `id` that stands there. */
export interface Fragment {
  readonly start: number;
  readonly end: number;
  readonly id?: number;
}

/** Special tokens that do more than stand where they are written. */
export interface TokenHabits {
  /** They swallow the white space before them, or after them. */
  readonly stripsLeft: ReadonlySet<number>;
  readonly stripsRight: ReadonlySet<number>;
  /** They are text where a letter or digit stands beside them. */
  readonly singleWords: ReadonlySet<number>;
}

interface Node {
  /** By code unit. */
  readonly next: Map<number, Node>;
  id?: number;
}

/** Finds tokens written in a text: leftmost first, of several that start there the longest. */
export class SpecialTokens {
  readonly #root: Node = { next: new Map() };
  readonly #habits: TokenHabits;
  readonly #isSpecial: (id: number) => boolean;
  /** 1 for code units that a token begins with. */
  readonly #starts = new Uint8Array(0x10000);

  /** @param isSpecial of which tokens nothing is read in literal parts of a text */
  constructor(
    tokens: Iterable<readonly [id: number, text: string]>,
    habits: TokenHabits,
    isSpecial: (id: number) => boolean,
  ) {
    this.#habits = habits;
    this.#isSpecial = isSpecial;
    for (const [id, text] of tokens) {
      if (text === '') continue;
      this.#starts[text.charCodeAt(0)] = 1;
      let node = this.#root;
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i);
        let child = node.next.get(unit);
        if (!child) {
          child = { next: new Map() };
          node.next.set(unit, child);
        }
        node = child;
      }
      node.id ??= id;
    }
  }

  /**
   * The parts of a text in order; none of them is empty.
   * @param literal parts that no special token may reach into, in order
   */
  split(text: string, literal: readonly (readonly [start: number, end: number])[] = []): Fragment[] {
    const fragments: Fragment[] = [];
    let start = 0;
    let at = 0;
    let next = 0;
    while (at < text.length) {
      while ((literal[next]?.[1] ?? Number.POSITIVE_INFINITY) <= at) next++;
      const before = literal[next]?.[0] ?? Number.POSITIVE_INFINITY;
      const found = this.#starts[text.charCodeAt(at)] === 1 ? this.#longestAt(text, at, before) : undefined;
      if (!found) {
        at++;
        continue;
      }
      if (this.#habits.singleWords.has(found.id) && !standsAlone(text, found)) {
        at = found.end;
        continue;
      }
      let end = at;
      if (this.#habits.stripsLeft.has(found.id)) while (end > start && isSpace(text, end - 1)) end--;
      if (end > start) fragments.push({ start, end });
      fragments.push(found);
      at = found.end;
      if (this.#habits.stripsRight.has(found.id)) while (isSpace(text, at)) at++;
      start = at;
    }
    if (start < text.length) fragments.push({ start, end: text.length });
    return fragments;
  }

  /** @param before where special tokens must have ended */
  #longestAt(text: string, start: number, before: number): Required<Fragment> | undefined {
    let found: Required<Fragment> | undefined;
    let node: Node | undefined = this.#root;
    for (let at = start; at < text.length; at++) {
      node = node.next.get(text.charCodeAt(at));
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
