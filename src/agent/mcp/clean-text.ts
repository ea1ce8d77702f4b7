/**
 * Control characters (except tab and line feed, which are kept) and invisible characters, which reorder or hide text.
 */
const invisibleCharacters =
  /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Removes invisible characters from a server's text, and cuts it to `maxLength` UTF-16 units. */
export function cleanText(text: string, maxLength: number): string {
  const clean = text
    .toWellFormed()
    .replace(/\r\n?/g, '\n')
    .replace(invisibleCharacters, (character) => (character === '\n' || character === '\t' ? character : ''));
  return cutText(clean, maxLength);
}

/** Clean text on one line, for use in a sentence. */
export const cleanLine = (text: string, maxLength: number): string =>
  cleanText(text.replace(/\s+/g, ' ').trim(), maxLength);

/** JSON with every invisible character escaped. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value, undefined, 2).replace(invisibleCharacters, (character) =>
    character === '\n'
      ? character
      : [...Array(character.length).keys()]
          .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
          .join(''),
  );

/** Cuts a text to `maxLength` UTF-16 units, without splitting a surrogate pair. */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
