import type { ObserveEnvelope } from '../observe/types.ts';
import { printable } from '../terminal/printable.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { wrapText } from '../terminal/text.ts';
import { pluralize } from '../words/count.ts';

/** Lines below a table: coverage, gaps, warnings and redactions. */
export function summaryLines(
  {
    rows,
    hasMore,
    hidden,
  }: { readonly rows: number; readonly hasMore: boolean; readonly hidden: readonly string[] },
  envelope: ObserveEnvelope,
  { paint, width }: OutputStyle,
): string[] {
  const { coverage, warnings, redactions } = envelope;
  const lines = (style: 'dim' | 'warn', text: string) =>
    wrapText(printable(text), width, '  ').map((line) => paint(style, line));
  return [
    ...lines(
      'dim',
      [
        scopeText(rows, envelope),
        ...(hasMore ? ['there are more rows: use --all or a larger --limit'] : []),
      ].join('; '),
    ),
    ...valueCounts(envelope).flatMap((text) => lines('dim', text)),
    ...(hidden.length > 0
      ? lines('dim', `columns that do not fit: ${hidden.join(', ')}; use --select or --json`)
      : []),
    ...coverage.gaps.flatMap(({ from, to, rows: lostRows, reason }) =>
      lines('warn', `gap: ${pluralize(lostRows, 'row')} lost between ${from} and ${to} (${reason})`),
    ),
    ...warnings.flatMap((warning) => lines('warn', `warning: ${warning}`)),
    ...redactions.flatMap(({ what, reason, count }) =>
      lines('warn', `left out: ${what}${count === undefined ? '' : ` (${count})`}: ${reason}`),
    ),
  ];
}

/** `3 rows of 340, from ... to ...` */
function scopeText(rows: number, { query, coverage: { from, to, denominator } }: ObserveEnvelope): string {
  const isGrouped = query instanceof Object && ('group_by' in query || 'aggregate' in query);
  const about =
    denominator === null ? '' : ` of ${isGrouped ? pluralize(denominator.rows, 'row') : denominator.rows}`;
  const span = from === null || to === null ? '' : `, from ${from} to ${to}`;
  return `${pluralize(rows, isGrouped ? 'group' : 'row')}${about}${span}`;
}

/** Counts of values in columns that are null in some rows. */
function valueCounts({ coverage: { denominator } }: ObserveEnvelope): string[] {
  if (denominator === null) return [];
  const some = Object.entries(denominator.with_value).filter(([, count]) => count < denominator.rows);
  if (some.length === 0) return [];
  return [`rows with a value: ${some.map(([name, count]) => `${name} ${count}`).join(', ')}`];
}
