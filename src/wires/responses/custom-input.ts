import { isRecord, tryParseJson } from '../../util/json.ts';

/** The one member of the arguments of a custom tool, as the model sees it. */
export const customInputMember = 'input';

const simpleEscapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Reads the text of a custom tool call from its arguments, `{"input": "..."}`, as they arrive. */
export class CustomInputReader {
  #json = '';
  /** Characters of `#json` that are read. */
  #at = 0;
  #state: 'before' | 'within' | 'after' = 'before';
  #text = '';

  /** @returns the text that the piece adds */
  push(piece: string): string {
    this.#json += piece;
    if (this.#state === 'before') {
      const start = /^\s*\{\s*"input"\s*:\s*"/.exec(this.#json);
      if (!start) return '';
      this.#state = 'within';
      this.#at = start[0].length;
    }
    let added = '';
    while (this.#state === 'within') {
      const character = this.#readCharacter();
      if (character === undefined) break;
      added += character;
    }
    this.#text += added;
    return added;
  }

  /** The whole text. Of truncated arguments, the text so far. */
  get text(): string {
    if (this.#state !== 'before') return this.#text;
    const value = tryParseJson(this.#json);
    const input = isRecord(value) ? value[customInputMember] : undefined;
    return typeof input === 'string' ? input : this.#json;
  }

  /** Reads one character, or both halves of a surrogate pair. @returns undefined where it is incomplete */
  #readCharacter(): string | undefined {
    const first = this.#json[this.#at];
    if (first === '"') this.#state = 'after';
    if (first === undefined || first === '"') return undefined;
    const match = /^(?:[^\\]|\\[^u]|\\u[\da-f]{4})/is.exec(this.#json.slice(this.#at, this.#at + 6));
    if (!match) return undefined;
    const unit = decode(match[0]);
    if (/[\ud800-\udbff]/.test(unit)) {
      const rest = this.#json.slice(this.#at + match[0].length);
      const low = /^(?:[\udc00-\udfff]|\\ud[c-f][\da-f]{2})/i.exec(rest);
      if (low) {
        this.#at += match[0].length + low[0].length;
        return unit + decode(low[0]);
      }
      if (rest.length < 6 && !rest.includes('"')) return undefined;
    }
    this.#at += match[0].length;
    return unit;
  }
}

function decode(text: string): string {
  if (text[0] !== '\\') return text;
  const kind = text[1] ?? '';
  return kind === 'u'
    ? String.fromCharCode(Number.parseInt(text.slice(2), 16))
    : (simpleEscapes[kind] ?? kind);
}
