import type { Json } from '../../util/json.ts';
import type { ClientRequest, UpstreamBody } from './wire.ts';

/**
 * Replaces, adds or (value `undefined`) removes members of a JSON object's text and leaves everything else byte for
 * byte: numbers that a parser would change (`1.0`, 20 digits), order, whitespace, escapes. New members are appended. Of
 * several members with one name only the last is kept, which is the one `JSON.parse` returns, so the text that is sent
 * matches the value that was checked.
 * @param text text that `JSON.parse` accepts as an object; the running time is linear in its length
 */
export function editMembers(text: string, edits: Readonly<Record<string, unknown>>): string {
  const members = parseMembers(text);
  const last = new Map(members.map(({ name }, index) => [name, index]));
  const open = text.indexOf('{') + 1;
  let edited = text.slice(0, members[0]?.start ?? open);
  let kept = 0;
  members.forEach(({ name, start, value, end }, index) => {
    const isEdited = Object.hasOwn(edits, name);
    if (last.get(name) !== index || (isEdited && edits[name] === undefined)) return;
    if (kept++ > 0) edited += text.slice(members[index - 1]?.end, start);
    edited += isEdited ? text.slice(start, value) + JSON.stringify(edits[name]) : text.slice(start, end);
  });
  for (const [name, value] of Object.entries(edits)) {
    if (value === undefined || last.has(name)) continue;
    edited += `${kept++ > 0 ? ',' : ''}${JSON.stringify(name)}:${JSON.stringify(value)}`;
  }
  return edited + text.slice(members.at(-1)?.end ?? open);
}

/** A request with members replaced, added or removed: as text for a provider, as a value for the local engine. */
export const createEditedBody = (
  path: string,
  { text, body }: Pick<ClientRequest, 'text' | 'body'>,
  edits: Json,
): UpstreamBody => ({
  path,
  headers: {},
  // Lazy, because only one of the two is used.
  get text() {
    return editMembers(text, edits);
  },
  get value() {
    return { ...body, ...edits };
  },
});

/** Offsets of a member within the text. */
interface Member {
  readonly name: string;
  readonly start: number;
  readonly value: number;
  readonly end: number;
}

const quote = 0x22;
const comma = 0x2c;
const backslash = 0x5c;
const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
const isOpening = (code: number) => code === 0x7b || code === 0x5b;
const isClosing = (code: number) => code === 0x7d || code === 0x5d;

function parseMembers(text: string): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== '{') throw new TypeError('expected the text of a JSON object');
  at = skipSpace(text, at + 1);
  while (text.charCodeAt(at) === quote) {
    const start = at;
    const nameEnd = skipString(text, at);
    const written = text.slice(start + 1, nameEnd - 1);
    const name = written.includes('\\') ? (JSON.parse(`"${written}"`) as string) : written;
    // Skips the colon.
    const value = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = skipValue(text, value);
    members.push({ name, start, value, end });
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === comma) at = skipSpace(text, at + 1);
  }
  return members;
}

function skipSpace(text: string, at: number): number {
  let end = at;
  while (isSpace(text.charCodeAt(end))) end++;
  return end;
}

/** @param at offset of the opening quote */
function skipString(text: string, at: number): number {
  let end = at;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) throw new TypeError('a string of the JSON text does not end');
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === backslash) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

function skipValue(text: string, at: number): number {
  let depth = 0;
  let end = at;
  while (end < text.length) {
    const code = text.charCodeAt(end);
    if (code === quote) {
      end = skipString(text, end);
      if (depth === 0) return end;
      continue;
    }
    if (depth === 0 && (code === comma || isClosing(code) || isSpace(code))) return end;
    if (isOpening(code)) depth++;
    end++;
    if (isClosing(code) && --depth === 0) return end;
  }
  throw new TypeError('the JSON text ends within a value');
}
