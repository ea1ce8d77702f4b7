import type { Tokenizer } from '../engine/index.ts';

interface ControlTexts {
  /** Every control token's text, longest first as the tokenizer matches them. */
  readonly pattern: RegExp;
  readonly ids: ReadonlyMap<string, number>;
  /** What control tokens begin with. */
  readonly beginnings: ReadonlySet<string>;
  readonly longest: number;
}
const known = new WeakMap<Tokenizer, ControlTexts>();

/** The control tokens of a tokenizer by their texts; found once a tokenizer. */
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
 * Stand-ins for texts of control tokens that somebody wrote: private-use characters around digits, which no template
 * changes and nobody can guess. Templates trim, inspect and join the marked texts; then the marks become text again,
 * and it is known where.
 */
export class Marks {
  readonly #controls: ControlTexts;
  readonly #nonce = crypto.getRandomValues(new Uint32Array(4)).join('');
  readonly #texts: string[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#controls = controlTexts(tokenizer);
  }

  /** A text that is not the template's: it must not become a control token, also not together with what follows it. */
  mark(text: string): string {
    const { pattern, beginnings, longest } = this.#controls;
    const marked = text.replaceAll(pattern, (token) => this.#put(token));
    for (let length = Math.min(longest - 1, marked.length); length > 0; length--) {
      const tail = marked.slice(-length);
      if (beginnings.has(tail)) return marked.slice(0, -length) + this.#put(tail);
    }
    return marked;
  }

  /** The texts within a value, keys included. */
  markAll<T>(value: T): T {
    return mapTexts(value, (text) => this.mark(text)) as T;
  }

  /** A text that stands in no other. */
  unique(): string {
    return this.#put('');
  }

  /** The text without marks, and where they stood: pairs of start and end. */
  restore(text: string): { text: string; literal: (readonly [start: number, end: number])[] } {
    const literal: (readonly [number, number])[] = [];
    const parts: string[] = [];
    let length = 0;
    let end = 0;
    const add = (part: string) => {
      parts.push(part);
      length += part.length;
    };
    // A template that writes JSON in ASCII escapes the marks too.
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

/** As JSON writes it in ASCII, within quotes. */
const asciiOf = (text: string): string =>
  JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Every text within a value, keys included. */
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
