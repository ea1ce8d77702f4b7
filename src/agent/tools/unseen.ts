/**
 * Control characters and invisible characters, which reorder or hide text. Joiners and variation selectors within emoji
 * are excluded; `countInvisible` skips tabs and line feeds.
 */
const unseen =
  /\r(?!\n)|(?<![\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}]\ufe0f?)\u200d|(?!\r|\u200d|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;
const mostNamed = 8;

/**
 * Warning for the person who approves a change that adds invisible characters, such as terminal control characters or
 * bidirectional marks. Empty when it adds none.
 */
export function unseenNote(before: string, after: string): string {
  const had = counted(before);
  const added = [...counted(after)].filter(([mark, count]) => count > (had.get(mark) ?? 0));
  if (added.length === 0) return '';
  const names = added.slice(0, mostNamed).map(([mark]) => `U+${hex(mark)}`);
  const more = added.length > names.length ? ' and others' : '';
  return ` Warning: it adds invisible characters (${names.join(', ')}${more}).`;
}

function counted(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [mark] of text.matchAll(unseen)) {
    if (mark === '\n' || mark === '\t') continue;
    counts.set(mark, (counts.get(mark) ?? 0) + 1);
  }
  return counts;
}

const hex = (mark: string) => (mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
