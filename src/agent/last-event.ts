const maxCharacters = 500;

/** The `last_event` of a finished task or run: `completed`, `cancelled` or `failed: <reason>`. */
export const endedEvent = (outcome: string, reason?: string): string =>
  oneLine(reason === undefined ? outcome : `${outcome}: ${reason}`, maxCharacters);

/** Text on one line, without control characters and lone surrogates, which some databases cannot store. */
export function oneLine(text: string, characters: number): string {
  const line = text
    .slice(0, 10 * characters)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .toWellFormed();
  if (line.length <= characters) return line;
  return `${line.slice(0, characters - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
