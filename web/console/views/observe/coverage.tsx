import { formatMs, formatNumber, formatTime } from '../../../ui/format.ts';
import { Badge, Facts } from '../../../ui/index.tsx';
import css from './observe.module.css';
import type { Envelope } from './types.ts';

/** What a result covers: number of rows, time range, gaps and redactions. */
export function Coverage({ envelope, shown }: { envelope: Envelope; shown: number }) {
  const { coverage, redactions, warnings, as_of: asOf, elapsed_ms: elapsedMs, truncated } = envelope;
  const { from, to, gaps, denominator } = coverage;
  const partialColumns = Object.entries(denominator?.with_value ?? {}).filter(
    ([, count]) => count < (denominator?.rows ?? 0),
  );
  return (
    <>
      {(warnings.length > 0 || gaps.length > 0 || redactions.length > 0) && (
        <ul className={css['notes']} aria-label="Warnings, gaps and redactions">
          {warnings.map((warning) => (
            <li key={warning}>
              <Badge tone="warn">warning</Badge> {warning}
            </li>
          ))}
          {gaps.map((gap) => (
            <li key={`${gap.from} ${gap.reason}`}>
              <Badge tone="warn">gap</Badge> {formatNumber(gap.rows)} rows are missing from{' '}
              {formatTime(gap.from)} to {formatTime(gap.to)}: {gap.reason.replaceAll('_', ' ')}
            </li>
          ))}
          {redactions.map(({ what, reason, count }) => (
            <li key={`${what} ${reason}`}>
              <Badge tone="warn">redacted</Badge> {what}
              {count !== undefined && ` (${formatNumber(count)})`}: {reason}
            </li>
          ))}
        </ul>
      )}
      <Facts
        facts={[
          [
            'Rows',
            `${formatNumber(shown)} shown${truncated ? ', more available' : ''}${denominator ? `; the query covers ${formatNumber(denominator.rows)}` : ''}`,
          ],
          ['Covers', from !== null && to !== null ? `${formatTime(from)} to ${formatTime(to)}` : 'no rows'],
          ['As of', `${formatTime(asOf)}, answered in ${formatMs(elapsedMs)}`],
        ]}
      />
      {denominator && partialColumns.length > 0 && (
        <details>
          <summary>Columns without a value in some rows</summary>
          <Facts
            facts={partialColumns.map(([name, count]) => [
              name,
              `${formatNumber(count)} of ${formatNumber(denominator.rows)} rows`,
            ])}
          />
        </details>
      )}
    </>
  );
}
