import { ModelFileError } from '../formats/model-file.ts';

/**
 * SentencePiece's normalization table (`precompiled_charsmap`): the size of a trie in bytes, the trie as a double array
 * of 32-bit units, then the zero-terminated replacement texts that its values point to. At every position the longest
 * matching entry is replaced; characters without an entry are unchanged.
 */
export class CharacterMap {
  readonly #units: Uint32Array;
  readonly #texts: Uint8Array;
  readonly #replacements = new Map<number, string>();
  /** Characters below U+0800 that no entry starts with, filled on first use. */
  readonly #unmappedCharacters = new Map<number, boolean>();

  constructor(table: Uint8Array) {
    const view = new DataView(table.buffer, table.byteOffset, table.byteLength);
    const size = table.length >= 4 ? view.getUint32(0, true) : -1;
    if (size < 4 || size % 4 !== 0 || size + 4 > table.length) {
      throw new ModelFileError(
        'invalid_tokenizer',
        `the tokenizer's character map declares a trie of ${size} bytes but has ${table.length}; the file is corrupt, download it again`,
      );
    }
    this.#units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + i * 4, true));
    this.#texts = table.subarray(4 + size);
  }

  apply(text: string): string {
    const parts: string[] = [];
    let copiedEnd = 0;
    for (let at = 0; at < text.length; ) {
      const found = this.#findLongest(text, at);
      if (!found) {
        at += (text.codePointAt(at) as number) > 0xffff ? 2 : 1;
        continue;
      }
      if (at > copiedEnd) parts.push(text.slice(copiedEnd, at));
      parts.push(found.text);
      at = found.end;
      copiedEnd = at;
    }
    if (copiedEnd === 0) return text;
    parts.push(text.slice(copiedEnd));
    return parts.join('');
  }

  /** The longest entry at a position. Entries end at character boundaries, so this encodes one character at a time. */
  #findLongest(text: string, start: number): { text: string; end: number } | undefined {
    const first = text.codePointAt(start) as number;
    if (this.#unmappedCharacters.get(first)) return undefined;
    let found: { value: number; end: number } | undefined;
    let node = childBaseOf(this.#units[0] as number);
    let at = start;
    let isPrefix = false;
    while (at < text.length) {
      const point = text.codePointAt(at) as number;
      const next = this.#followCharacter(node, point);
      if (next === undefined) break;
      isPrefix = true;
      at += point > 0xffff ? 2 : 1;
      node = next.node;
      if (next.value !== undefined) found = { value: next.value, end: at };
    }
    if (!isPrefix && first < 0x800) this.#unmappedCharacters.set(first, true);
    return found && { text: this.#replacement(found.value), end: found.end };
  }

  /** Follows the UTF-8 bytes of a character: the node they lead to, and its value if an entry ends there. */
  #followCharacter(
    startNode: number,
    point: number,
  ): { node: number; value: number | undefined } | undefined {
    let node = startNode;
    let unit = 0;
    for (const byte of utf8Bytes(point)) {
      node ^= byte;
      unit = this.#units[node] ?? 0;
      // The label of a unit is its byte. A leaf has the top bit set and therefore never matches.
      if (byte === 0 || (unit & 0x800000ff) !== byte) return undefined;
      node ^= childBaseOf(unit);
    }
    const isEnd = ((unit >>> 8) & 1) === 1;
    return { node, value: isEnd ? (this.#units[node] ?? 0) & 0x7fffffff : undefined };
  }

  #replacement(offset: number): string {
    let text = this.#replacements.get(offset);
    if (text === undefined) {
      const end = this.#texts.indexOf(0, offset);
      text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(
        this.#texts.subarray(offset, end < 0 ? undefined : end),
      );
      this.#replacements.set(offset, text);
    }
    return text;
  }
}

/** Offset from a unit to the base of its children. */
function childBaseOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

function utf8Bytes(point: number): readonly number[] {
  if (point < 0x80) return [point];
  const last = 0x80 | (point & 0x3f);
  if (point < 0x800) return [0xc0 | (point >> 6), last];
  const middle = 0x80 | ((point >> 6) & 0x3f);
  if (point < 0x10000) return [0xe0 | (point >> 12), middle, last];
  return [0xf0 | (point >> 18), 0x80 | ((point >> 12) & 0x3f), middle, last];
}
