/** Controls but tab and line feed, and marks that are not seen: they turn or hide what a person reads. */
const unseen =
  /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Text of a server for people and models: what is unseen goes, and what is longer than `most` characters is cut. */
export function cleanText(text: string, most: number): string {
  const clean = text
    .toWellFormed()
    .replace(/\r\n?/g, '\n')
    .replace(unseen, (mark) => (mark === '\n' || mark === '\t' ? mark : ''));
  return cut(clean, most);
}

/** For a place in a sentence. */
export const oneLine = (text: string, most: number): string =>
  cleanText(text.replace(/\s+/g, ' ').trim(), most);

/** JSON of which nothing is hidden: whatever is unseen is written as its number. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value, undefined, 2).replace(unseen, (mark) =>
    mark === '\n'
      ? mark
      : [...Array(mark.length).keys()]
          .map((at) => `\\u${mark.charCodeAt(at).toString(16).padStart(4, '0')}`)
          .join(''),
  );

/** At most so many UTF-16 units, and never half a character. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
