import { Link } from 'wouter';
import { formatMs, formatNumber } from '../../../../ui/format.ts';
import { OutcomeBadge } from '../outcome-badge.tsx';
import type { WaterfallSpan } from './spans.ts';
import css from './trace.module.css';

/** Spans on one time line, each with its start, duration and meaning. */
export function Waterfall(props: { label: string; totalMs: number; spans: readonly WaterfallSpan[] }) {
  const { label, totalMs, spans } = props;
  const percent = (ms: number) => (totalMs > 0 ? Math.min(100, (ms / totalMs) * 100) : 0);
  return (
    <>
      <ol className={css['waterfall']} aria-label={label}>
        {spans.map(({ key, name, meaning, kind, startMs, durationMs, href, outcome, code }) => (
          <li key={key} data-duration-ms={durationMs}>
            <div className={css['spanHead']}>
              <span>
                {href === undefined ? <strong>{name}</strong> : <Link href={href}>{name}</Link>}{' '}
                {outcome !== undefined && outcome !== 'ok' && (
                  <OutcomeBadge outcome={outcome} {...(code === undefined ? {} : { code })} />
                )}
              </span>
              <span className={css['times']}>
                {formatMs(durationMs)} <small>from {startMs === 0 ? '0 ms' : formatMs(startMs)}</small>
              </span>
            </div>
            <div className={css['track']} aria-hidden="true">
              <span
                data-kind={kind}
                style={{ left: `${percent(startMs)}%`, width: `max(2px, ${percent(durationMs)}%)` }}
              />
            </div>
            <small className={css['meaning']}>
              {meaning} {totalMs > 0 && `${formatNumber((durationMs / totalMs) * 100)} % of the whole.`}
            </small>
          </li>
        ))}
      </ol>
      <p className={css['axis']} aria-hidden="true">
        <span>0 ms</span>
        <span>{formatMs(totalMs / 2)}</span>
        <span>{formatMs(totalMs)}</span>
      </p>
    </>
  );
}
