const maxCharacters = 500;

/** The `last_event` of finished work: `completed`, `cancelled` or `failed: why`. */
export const endedEvent = (outcome: string, reason?: string): string =>
  oneLine(reason === undefined ? outcome : `${outcome}: ${reason}`, maxCharacters);

/** On one line and without what some databases cannot keep. */
export function oneLine(text: string, characters: number): string {
  const line = text
    .slice(0, 10 * characters)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .toWellFormed();
  if (line.length <= characters) return line;
  return `${line.slice(0, characters - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
