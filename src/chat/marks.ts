import type { Tokenizer } from '../engine/index.ts';

interface ControlTexts {
  /** Matches the text of any control token, the longest first, as the tokenizer does. */
  readonly pattern: RegExp;
  readonly ids: ReadonlyMap<string, number>;
  /** Proper prefixes of control token texts. */
  readonly beginnings: ReadonlySet<string>;
  readonly longest: number;
}
const known = new WeakMap<Tokenizer, ControlTexts>();

/** The control tokens of a tokenizer by their texts, cached per tokenizer. */
export function controlTexts(tokenizer: Tokenizer): ControlTexts {
  const found = known.get(tokenizer) ?? findControlTexts(tokenizer);
  known.set(tokenizer, found);
  return found;
}

function findControlTexts(tokenizer: Tokenizer): ControlTexts {
  const ids = new Map<string, number>();
  const beginnings = new Set<string>();
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    if (!tokenizer.isControl(id)) continue;
    const text = tokenizer.tokenText(id);
    if (text === '' || ids.has(text)) continue;
    ids.set(text, id);
    for (let length = 1; length < text.length; length++) beginnings.add(text.slice(0, length));
  }
  const longestFirst = [...ids.keys()].sort((a, b) => b.length - a.length);
  const alternatives = longestFirst.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|');
  return {
    ids,
    beginnings,
    pattern: new RegExp(alternatives === '' ? '(?!)' : alternatives, 'g'),
    longest: longestFirst[0]?.length ?? 0,
  };
}

/**
 * Replaces control token texts in user input by placeholders before a template renders it. A placeholder is a random
 * number between private-use characters, which templates do not change and users cannot guess. After rendering,
 * `unescape` restores the texts and returns their positions, where the tokenizer must not recognize control tokens.
 */
export class Marks {
  readonly #controls: ControlTexts;
  readonly #nonce = crypto.getRandomValues(new Uint32Array(4)).join('');
  readonly #texts: string[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#controls = controlTexts(tokenizer);
  }

  /** Escapes a text so that no part of it becomes a control token, not even together with the text that follows it. */
  mark(text: string): string {
    const { pattern, beginnings, longest } = this.#controls;
    const marked = text.replaceAll(pattern, (token) => this.#put(token));
    for (let length = Math.min(longest - 1, marked.length); length > 0; length--) {
      const tail = marked.slice(-length);
      if (beginnings.has(tail)) return marked.slice(0, -length) + this.#put(tail);
    }
    return marked;
  }

  /** Escapes all strings in a value, including keys. */
  markAll<T>(value: T): T {
    return mapTexts(value, (text) => this.mark(text)) as T;
  }

  /** Creates a placeholder that occurs in no other text and is restored to an empty text. */
  unique(): string {
    return this.#put('');
  }

  /** Restores the escaped texts, and returns their [start, end) ranges in the result. */
  restore(text: string): { text: string; literal: (readonly [start: number, end: number])[] } {
    const literal: (readonly [number, number])[] = [];
    const parts: string[] = [];
    let length = 0;
    let end = 0;
    const add = (part: string) => {
      parts.push(part);
      length += part.length;
    };
    // A template that writes ASCII JSON escapes the private-use characters of placeholders too.
    const mark = new RegExp(`(\uE000|\\\\ue000)${this.#nonce}\\.(\\d+)(?:\uE001|\\\\ue001)`, 'g');
    for (const found of text.matchAll(mark)) {
      add(text.slice(end, found.index));
      const start = length;
      const meant = this.#texts[Number(found[2])] ?? '';
      add(found[1] === '\uE000' ? meant : asciiOf(meant));
      if (length > start) literal.push([start, length]);
      end = found.index + found[0].length;
    }
    add(text.slice(end));
    return { text: parts.join(''), literal };
  }

  #put(text: string): string {
    return `\uE000${this.#nonce}.${this.#texts.push(text) - 1}\uE001`;
  }
}

/** The content of an ASCII JSON string. */
const asciiOf = (text: string): string =>
  JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Collects all strings in a value, including keys. */
export function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...textsOf(inner)]);
}

function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((inner) => mapTexts(inner, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [change(key), mapTexts(inner, change)]),
  );
}
