const maxCharacters = 500;

/** The `last_event` of a finished task or run: `completed`, `cancelled` or `failed: <reason>`. */
export const describeOutcome = (outcome: string, reason?: string): string =>
  toSingleLine(reason === undefined ? outcome : `${outcome}: ${reason}`, maxCharacters);

/** Text on one line, without control characters and lone surrogates, which some databases cannot store. */
export function toSingleLine(text: string, maxLength: number): string {
  const line = text
    .slice(0, 10 * maxLength)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .toWellFormed();
  if (line.length <= maxLength) return line;
  return `${line.slice(0, maxLength - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
