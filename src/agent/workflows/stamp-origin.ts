import { TomlDocument } from './definition/toml-document.ts';

/**
 * Sets name and origin of a source, and keeps every other character.
 * @param source must have a `name` text in `[ensemble]`
 */
export function stampOrigin(source: string, { name, origin }: { name: string; origin: string }): string {
  const document = new TomlDocument(source);
  const edits = [{ at: ['ensemble', 'name'], text: JSON.stringify(name) }];
  const hasOrigin = document.range(['ensemble', 'origin']) !== undefined;
  if (hasOrigin) edits.push({ at: ['ensemble', 'origin'], text: JSON.stringify(origin) });
  let text = source;
  const ranges = edits.flatMap((edit) => {
    const range = document.range(edit.at);
    return range === undefined ? [] : [{ range, text: edit.text }];
  });
  // From the end, so that earlier offsets stay valid.
  for (const { range, text: replacement } of ranges.toSorted((a, b) => b.range[0] - a.range[0]))
    text = text.slice(0, range[0]) + replacement + text.slice(range[1]);
  return hasOrigin ? text : insertOrigin(text, origin);
}

/** Inserts the origin on a new line after the name. */
function insertOrigin(source: string, origin: string): string {
  const range = new TomlDocument(source).range(['ensemble', 'name']);
  const from = range?.[1] ?? source.length;
  const end = source.indexOf('\n', from);
  const lineEnd = source[end - 1] === '\r' ? '\r\n' : '\n';
  const line = `origin = ${JSON.stringify(origin)}`;
  return end < 0
    ? `${source}\n${line}\n`
    : `${source.slice(0, end + 1)}${line}${lineEnd}${source.slice(end + 1)}`;
}
