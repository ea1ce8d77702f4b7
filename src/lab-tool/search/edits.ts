/** Replaces the characters from `from` to `to`. */
export interface Edit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/**
 * @param edits apart from each other
 * @param range the part of the text that is returned; by default all of it
 */
export function applyEdits(
  text: string,
  edits: readonly Edit[],
  range = { from: 0, to: text.length },
): string {
  let result = text.slice(range.from, range.to);
  for (const { from, to, text: replacement } of [...edits].sort((a, b) => b.from - a.from))
    result = result.slice(0, from - range.from) + replacement + result.slice(to - range.from);
  return result;
}
