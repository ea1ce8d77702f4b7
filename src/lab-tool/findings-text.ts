import type { LocalFinding } from './register-kernel.ts';
import type { OutputStyle, Style } from '../terminal/style.ts';
import { printable } from '../terminal/printable.ts';
import { splitCells, wrapText } from '../terminal/text.ts';

const colors: Readonly<Record<LocalFinding['severity'], Style>> = {
  error: 'bad',
  warning: 'warn',
  info: 'note',
};

/**
 * Formats a finding like a compiler: location, message, and the source line with carets.
 * @param lines lines of the file, if known
 */
export function findingLines(
  finding: LocalFinding,
  lines: readonly string[] | undefined,
  look: OutputStyle,
): string[] {
  const { paint, width } = look;
  const { file, line, column, length, severity, code, message } = finding;
  const where = [file, ...(line === undefined ? [] : [line, ...(column === undefined ? [] : [column])])].join(
    ':',
  );
  const [first = '', ...rest] = message.split('\n').map(printable);
  const [head = '', ...wrapped] = wrapText(`${where} ${severity}[${code}] ${first}`, width, '    ');
  const label = `${where} ${severity}[${code}]`;
  const painted = head.startsWith(label)
    ? `${paint('strong', where)} ${paint(colors[severity], `${severity}[${code}]`)}${head.slice(label.length)}`
    : paint('strong', head);
  const text = line === undefined ? undefined : lines?.[line - 1];
  return [
    painted,
    ...wrapped,
    ...rest.flatMap((each) => wrapText(`    ${each}`.trimEnd(), width, '    ')),
    ...(text === undefined || line === undefined
      ? []
      : sourceExcerpt(text, line, { column, length, color: colors[severity] }, look)),
  ];
}

interface CaretRange {
  readonly column: number | undefined;
  readonly length: number | undefined;
  readonly color: Style;
}

/** The source line, truncated to the terminal width around the location, with carets below. */
function sourceExcerpt(
  text: string,
  line: number,
  { column, length = 1, color }: CaretRange,
  { paint, width }: OutputStyle,
): string[] {
  const gutter = `${String(line).padStart(5)} | `;
  const cells = splitCells(text);
  const end = cells.reduce((sum, cell) => sum + cell.width, 0);
  const availableWidth = Math.max(20, width - gutter.length - 2);
  const from = (column ?? 1) - 1;
  const marked = cells.filter(
    (cell) => cell.index + cell.length > from && cell.index < from + Math.max(1, length),
  );
  const markStart = marked[0]?.column ?? end;
  const markEnd = Math.max(
    markStart + 1,
    marked.reduce((last, cell) => Math.max(last, cell.column + cell.width), 0),
  );

  // The whole line if it fits, else a window that begins somewhat before the location.
  const start =
    end <= availableWidth || markEnd <= availableWidth
      ? 0
      : Math.max(0, markStart - Math.floor(availableWidth / 3));
  const shown = cells.filter(
    (cell) => cell.column >= start && cell.column + cell.width <= start + availableWidth,
  );
  const source = `${start > 0 ? '…' : ''}${shown.map((cell) => cell.text).join('')}${start + availableWidth < end ? '…' : ''}`;
  const sourceLine = `${paint('dim', gutter)}${source.trimEnd()}`;
  if (column === undefined) return [sourceLine];
  const offset = markStart - start + (start > 0 ? 1 : 0);
  const carets = '^'.repeat(Math.max(1, Math.min(markEnd, start + availableWidth) - markStart));
  return [sourceLine, `${paint('dim', `${' '.repeat(5)} | `)}${' '.repeat(offset)}${paint(color, carets)}`];
}
