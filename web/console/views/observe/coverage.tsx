import { formatMs, formatNumber, formatTime } from '../../parts/format.ts';
import { Badge, Facts } from '../../parts/index.tsx';
import css from './observe.module.css';
import type { Envelope } from './types.ts';

/** What a result covers: number of rows, time range, gaps and redactions. */
export function Coverage({ envelope, shown }: { envelope: Envelope; shown: number }) {
  const { coverage, redactions, warnings, as_of: at, elapsed_ms: took, truncated } = envelope;
  const { from, to, gaps, denominator } = coverage;
  const partly = Object.entries(denominator?.with_value ?? {}).filter(
    ([, count]) => count < (denominator?.rows ?? 0),
  );
  return (
    <>
      {(warnings.length > 0 || gaps.length > 0 || redactions.length > 0) && (
        <ul className={css['notes']} aria-label="Warnings, gaps and redactions">
          {warnings.map((said) => (
            <li key={said}>
              <Badge tone="warn">warning</Badge> {said}
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
          ['As of', `${formatTime(at)}, answered in ${formatMs(took)}`],
        ]}
      />
      {denominator && partly.length > 0 && (
        <details>
          <summary>Columns without a value in some rows</summary>
          <Facts
            facts={partly.map(([name, count]) => [
              name,
              `${formatNumber(count)} of ${formatNumber(denominator.rows)} rows`,
            ])}
          />
        </details>
      )}
    </>
  );
}
