import type { Tokenizer } from '../engine/index.ts';

interface ControlTokenTexts {
  /** Matches the text of any control token, the longest first, as the tokenizer does. */
  readonly pattern: RegExp;
  readonly ids: ReadonlyMap<string, number>;
  /** Proper prefixes of control token texts. */
  readonly prefixes: ReadonlySet<string>;
  readonly maxLength: number;
}
const textsByTokenizer = new WeakMap<Tokenizer, ControlTokenTexts>();

/** The control tokens of a tokenizer by their texts, cached per tokenizer. */
export function getControlTokenTexts(tokenizer: Tokenizer): ControlTokenTexts {
  const found = textsByTokenizer.get(tokenizer) ?? collectControlTokenTexts(tokenizer);
  textsByTokenizer.set(tokenizer, found);
  return found;
}

function collectControlTokenTexts(tokenizer: Tokenizer): ControlTokenTexts {
  const ids = new Map<string, number>();
  const prefixes = new Set<string>();
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    if (!tokenizer.isControl(id)) continue;
    const text = tokenizer.tokenText(id);
    if (text === '' || ids.has(text)) continue;
    ids.set(text, id);
    for (let length = 1; length < text.length; length++) prefixes.add(text.slice(0, length));
  }
  const longestFirst = [...ids.keys()].sort((a, b) => b.length - a.length);
  const alternatives = longestFirst.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|');
  return {
    ids,
    prefixes,
    pattern: new RegExp(alternatives === '' ? '(?!)' : alternatives, 'g'),
    maxLength: longestFirst[0]?.length ?? 0,
  };
}

/**
 * Replaces control token texts in user input by placeholders before a template renders it. A placeholder is a random
 * number between private-use characters, which templates do not change and users cannot guess. After rendering,
 * `unescape` restores the texts and returns their positions, where the tokenizer must not recognize control tokens.
 */
export class ControlTextEscaper {
  readonly #controls: ControlTokenTexts;
  readonly #nonce = crypto.getRandomValues(new Uint32Array(4)).join('');
  readonly #texts: string[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#controls = getControlTokenTexts(tokenizer);
  }

  /** Escapes a text so that no part of it becomes a control token, not even together with the text that follows it. */
  escape(text: string): string {
    const { pattern, prefixes, maxLength } = this.#controls;
    const marked = text.replaceAll(pattern, (token) => this.#addPlaceholder(token));
    for (let length = Math.min(maxLength - 1, marked.length); length > 0; length--) {
      const tail = marked.slice(-length);
      if (prefixes.has(tail)) return marked.slice(0, -length) + this.#addPlaceholder(tail);
    }
    return marked;
  }

  /** Escapes all strings in a value, including keys. */
  escapeAll<T>(value: T): T {
    return mapStrings(value, (text) => this.escape(text)) as T;
  }

  /** Creates a placeholder that occurs in no other text and is restored to an empty text. */
  createPlaceholder(): string {
    return this.#addPlaceholder('');
  }

  /** Restores the escaped texts, and returns their [start, end) ranges in the result. */
  unescape(text: string): { text: string; literal: (readonly [start: number, end: number])[] } {
    const literal: (readonly [number, number])[] = [];
    const parts: string[] = [];
    let length = 0;
    let end = 0;
    const add = (part: string) => {
      parts.push(part);
      length += part.length;
    };
    // A template that writes ASCII JSON escapes the private-use characters of placeholders too.
    const placeholderPattern = new RegExp(
      `(\uE000|\\\\ue000)${this.#nonce}\\.(\\d+)(?:\uE001|\\\\ue001)`,
      'g',
    );
    for (const found of text.matchAll(placeholderPattern)) {
      add(text.slice(end, found.index));
      const start = length;
      const original = this.#texts[Number(found[2])] ?? '';
      add(found[1] === '\uE000' ? original : toAsciiJson(original));
      if (length > start) literal.push([start, length]);
      end = found.index + found[0].length;
    }
    add(text.slice(end));
    return { text: parts.join(''), literal };
  }

  #addPlaceholder(text: string): string {
    return `\uE000${this.#nonce}.${this.#texts.push(text) - 1}\uE001`;
  }
}

/** The content of an ASCII JSON string. */
const toAsciiJson = (text: string): string =>
  JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Collects all strings in a value, including keys. */
export function collectTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...collectTexts(inner)]);
}

function mapStrings(value: unknown, transform: (text: string) => string): unknown {
  if (typeof value === 'string') return transform(value);
  if (Array.isArray(value)) return value.map((inner) => mapStrings(inner, transform));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [transform(key), mapStrings(inner, transform)]),
  );
}
