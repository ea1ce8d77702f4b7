import type { ObserveEnvelope } from '../observe/types.ts';
import { printable } from '../terminal/printable.ts';
import type { Look } from '../terminal/style.ts';
import { wrap } from '../terminal/text.ts';
import { counted } from '../words/count.ts';

/** Lines below a table: coverage, gaps, warnings and redactions. */
export function closingLines(
  {
    rows,
    more,
    hidden,
  }: { readonly rows: number; readonly more: boolean; readonly hidden: readonly string[] },
  envelope: ObserveEnvelope,
  { paint, width }: Look,
): string[] {
  const { coverage, warnings, redactions } = envelope;
  const lines = (style: 'dim' | 'warn', text: string) =>
    wrap(printable(text), width, '  ').map((line) => paint(style, line));
  return [
    ...lines(
      'dim',
      [scope(rows, envelope), ...(more ? ['there are more rows: use --all or a larger --limit'] : [])].join(
        '; ',
      ),
    ),
    ...known(envelope).flatMap((text) => lines('dim', text)),
    ...(hidden.length > 0
      ? lines('dim', `columns that do not fit: ${hidden.join(', ')}; use --select or --json`)
      : []),
    ...coverage.gaps.flatMap(({ from, to, rows: lost, reason }) =>
      lines('warn', `gap: ${counted(lost, 'row')} lost between ${from} and ${to} (${reason})`),
    ),
    ...warnings.flatMap((warning) => lines('warn', `warning: ${warning}`)),
    ...redactions.flatMap(({ what, reason, count }) =>
      lines('warn', `left out: ${what}${count === undefined ? '' : ` (${count})`}: ${reason}`),
    ),
  ];
}

/** `3 rows of 340, from ... to ...` */
function scope(rows: number, { query, coverage: { from, to, denominator } }: ObserveEnvelope): string {
  const isGrouped = query instanceof Object && ('group_by' in query || 'aggregate' in query);
  const about =
    denominator === null ? '' : ` of ${isGrouped ? counted(denominator.rows, 'row') : denominator.rows}`;
  const span = from === null || to === null ? '' : `, from ${from} to ${to}`;
  return `${counted(rows, isGrouped ? 'group' : 'row')}${about}${span}`;
}

/** Counts of values in columns that are null in some rows. */
function known({ coverage: { denominator } }: ObserveEnvelope): string[] {
  if (denominator === null) return [];
  const some = Object.entries(denominator.with_value).filter(([, count]) => count < denominator.rows);
  if (some.length === 0) return [];
  return [`rows with a value: ${some.map(([name, count]) => `${name} ${count}`).join(', ')}`];
}
