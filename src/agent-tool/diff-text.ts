import { isAbsolute, relative } from 'node:path';
import { printableLine, printableLines } from '../terminal/lines.ts';
import type { Paint } from '../terminal/style.ts';

const styles = { '+': 'good', '-': 'bad', '@': 'note' } as const;
type LineEnds = 'CRLF' | 'LF' | 'mixed';

/** A unified diff of one file in colors, with its path from the working folder. */
export function diffText(
  diff: string,
  { path, cwd }: { readonly path: string | undefined; readonly cwd: string },
  paint: Paint,
): string {
  const [from = '', to = '', ...body] = diff.replace(/\n$/, '').split('\n');
  const name = path === undefined ? undefined : printableLine(fromFolder(path, cwd));
  const header = (line: string, sign: string, side: string) =>
    name === undefined || line.endsWith(' /dev/null') ? line : `${sign} ${side}/${name}`;
  const ends = { before: lineEnds(body, '-'), after: lineEnds(body, '+') };
  const isMixed = ends.before === 'mixed' || ends.after === 'mixed';
  const lines = body.map((line) =>
    line.endsWith('\r') ? `${line.slice(0, -1)}${isMixed ? String.raw`\r` : ''}` : line,
  );
  const shown = [header(from, '---', 'a'), header(to, '+++', 'b'), ...lines].map((line) => {
    const style = styles[line[0] as keyof typeof styles];
    const text = printableLines(line);
    return style === undefined ? text : paint(style, text);
  });
  return [...shown, ...lineEndNote(ends).map((note) => paint('dim', note))].join('\n');
}

/** The path from a folder, or the whole path of a file outside. */
function fromFolder(path: string, folder: string): string {
  const short = relative(folder, path);
  return short === '' || short.startsWith('..') || isAbsolute(short) ? path.replace(/^\//, '') : short;
}

/** The line ends of one side of a diff; undefined when it has no lines. */
function lineEnds(body: readonly string[], sign: '+' | '-'): LineEnds | undefined {
  const lines = body.filter(
    (line, index) => (line[0] === ' ' || line[0] === sign) && !body[index + 1]?.startsWith('\\'),
  );
  if (lines.length === 0) return undefined;
  const count = lines.filter((line) => line.endsWith('\r')).length;
  if (count === 0) return 'LF';
  return count === lines.length ? 'CRLF' : 'mixed';
}

function lineEndNote({
  before,
  after,
}: {
  readonly before: LineEnds | undefined;
  readonly after: LineEnds | undefined;
}): string[] {
  if (before === 'mixed' || after === 'mixed') return ['(some lines end in CRLF, shown as \\r)'];
  if (before !== undefined && after !== undefined && before !== after)
    return [`(line ends: ${before} before, ${after} after)`];
  return (after ?? before) === 'CRLF' ? ['(CRLF line ends)'] : [];
}
