/** A part of a text: plain text from `start` to `end`, or the special token `id` that stands there. */
export interface Fragment {
  readonly start: number;
  readonly end: number;
  readonly id?: number;
}

interface Node {
  /** By code unit. */
  readonly next: Map<number, Node>;
  id?: number;
}

/** Finds tokens written in a text: leftmost first, of several that start there the longest. */
export class SpecialTokens {
  readonly #root: Node = { next: new Map() };
  readonly #stripsRight: ReadonlySet<number>;
  /** 1 for code units that a token begins with. */
  readonly #starts = new Uint8Array(0x10000);

  constructor(tokens: Iterable<readonly [id: number, text: string]>, stripsRight: ReadonlySet<number>) {
    this.#stripsRight = stripsRight;
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

  /** The parts of a text in order; none of them is empty. */
  split(text: string): Fragment[] {
    const fragments: Fragment[] = [];
    let start = 0;
    let at = 0;
    while (at < text.length) {
      const found = this.#starts[text.charCodeAt(at)] === 1 ? this.#longestAt(text, at) : undefined;
      if (!found) {
        at++;
        continue;
      }
      if (at > start) fragments.push({ start, end: at });
      fragments.push(found);
      at = found.end;
      if (this.#stripsRight.has(found.id)) while (isSpace(text.charCodeAt(at))) at++;
      start = at;
    }
    if (start < text.length) fragments.push({ start, end: text.length });
    return fragments;
  }

  #longestAt(text: string, start: number): Required<Fragment> | undefined {
    let found: Required<Fragment> | undefined;
    let node: Node | undefined = this.#root;
    for (let at = start; at < text.length; at++) {
      node = node.next.get(text.charCodeAt(at));
      if (!node) break;
      if (node.id !== undefined) found = { start, end: at + 1, id: node.id };
    }
    return found;
  }
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
}
