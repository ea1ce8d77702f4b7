/**
 * Control characters and invisible characters, which reorder or hide text. Joiners and variation selectors within emoji
 * are excluded; `countInvisible` skips tabs and line feeds.
 */
const invisibleCharacters =
  /\r(?!\n)|(?<![\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}]\ufe0f?)\u200d|(?!\r|\u200d|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;
const maxListed = 8;

/**
 * Warning for the person who approves a change that adds invisible characters, such as terminal control characters or
 * bidirectional marks. Empty when it adds none.
 */
export function invisibleCharactersWarning(before: string, after: string): string {
  const countsBefore = countInvisible(before);
  const added = [...countInvisible(after)].filter(
    ([character, count]) => count > (countsBefore.get(character) ?? 0),
  );
  if (added.length === 0) return '';
  const names = added.slice(0, maxListed).map(([character]) => `U+${hex(character)}`);
  const more = added.length > names.length ? ' and others' : '';
  return ` Warning: it adds invisible characters (${names.join(', ')}${more}).`;
}

function countInvisible(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [character] of text.matchAll(invisibleCharacters)) {
    if (character === '\n' || character === '\t') continue;
    counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  return counts;
}

const hex = (character: string) =>
  (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
