import { TomlDocument } from './definition/toml-document.ts';

/**
 * A source under another name and with its origin, and every other character as it was.
 * @param source with a text as `name` in `[ensemble]`
 */
export function stamped(source: string, { name, origin }: { name: string; origin: string }): string {
  const document = new TomlDocument(source);
  const edits = [{ at: ['ensemble', 'name'], text: JSON.stringify(name) }];
  const hasOrigin = document.range(['ensemble', 'origin']) !== undefined;
  if (hasOrigin) edits.push({ at: ['ensemble', 'origin'], text: JSON.stringify(origin) });
  let text = source;
  const ranges = edits.flatMap((edit) => {
    const range = document.range(edit.at);
    return range === undefined ? [] : [{ range, text: edit.text }];
  });
  // From the end, so that what comes before keeps its place.
  for (const { range, text: put } of ranges.toSorted((a, b) => b.range[0] - a.range[0]))
    text = text.slice(0, range[0]) + put + text.slice(range[1]);
  return hasOrigin ? text : withOrigin(text, origin);
}

/** On a line of its own after that of the name. */
function withOrigin(source: string, origin: string): string {
  const range = new TomlDocument(source).range(['ensemble', 'name']);
  const from = range?.[1] ?? source.length;
  const end = source.indexOf('\n', from);
  const lineEnd = source[end - 1] === '\r' ? '\r\n' : '\n';
  const line = `origin = ${JSON.stringify(origin)}`;
  return end < 0
    ? `${source}\n${line}\n`
    : `${source.slice(0, end + 1)}${line}${lineEnd}${source.slice(end + 1)}`;
}
